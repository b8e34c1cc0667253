// The names and versions that writing and reading packs share. Internal to db.
#pragma once

namespace lathe::db {

inline constexpr const char* kPackFormat = "lathe pack";
inline constexpr int kPackVersion = 1;
inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr const char* kDevicesFile = "devices.jsonl";
inline constexpr const char* kWorkloadsFile = "workloads.jsonl";
inline constexpr const char* kModelsFile = "models.jsonl";
inline constexpr const char* kMeasurementsFile = "measurements.jsonl";

}  // namespace lathe::db
