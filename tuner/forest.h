// A sum of regression trees that was learnt elsewhere: what of a cost model is kept in a database. Read by us
// and not by XGBoost, which believes what it loads (of 400 damaged models 62 ended the process, 10 hung it).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lathe::tuner {

class Forest {
 public:
  /// Of the model that XGBoost wrote as JSON (format "json" of XGBoosterSaveModelToBuffer), of regression
  /// trees with a base score of 0.
  static Forest of_xgboost(const std::string& json);

  /// Text; load() is its inverse, for rows of `width` numbers. Throws Error for anything that is no such
  /// forest: then every path of every tree ends, within it and within a row.
  std::string save() const;
  static Forest load(const std::string& text, size_t width);

  /// The sum of the trees at `row`, added in the order in which they grew. REQUIRES: `row` has the width.
  float at(const float* row) const;

 private:
  struct Node {
    int32_t feature = -1;         // < 0: a leaf
    float value = 0;              // of a leaf; or where the branches part: below it to the left
    int32_t left = 0, right = 0;  // behind this node
    bool missing_left = false;    // where a NaN goes
  };
  std::vector<std::vector<Node>> trees_;
};

}  // namespace lathe::tuner
