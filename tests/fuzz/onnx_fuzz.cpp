// ONNX files. The seeds are small cases of Debian's conformance data, one a family of converters.
#include "core/frontends/onnx.h"
#include "core/support/text.h"
#include "tests/fuzz/fuzz.h"

namespace lathe::fuzz {

std::vector<std::string> seeds() {
  std::vector<std::string> files;
  for (const char* name :
       {"test_conv_with_strides_padding", "test_convtranspose_output_shape", "test_maxpool_2d_ceil",
        "test_gemm_all_attributes", "test_batchnorm_epsilon", "test_layer_normalization_4d_axis1_expanded",
        "test_reduce_sum_keepdims_example", "test_softmax_axis_1", "test_constant_pad", "test_slice",
        "test_resize_upsample_sizes_nearest", "test_gather_elements_0", "test_clip",
        "test_constantofshape_float_ones", "test_split_variable_parts_1d", "test_scatter_elements_with_axis"})
    files.push_back(read_file(std::string("/usr/share/libonnx-testdata/data/node/") + name + "/model.onnx"));
  return files;
}

void run_one(std::string_view bytes) { onnx::import_bytes(std::string(bytes), "fuzz.onnx"); }

}  // namespace lathe::fuzz
