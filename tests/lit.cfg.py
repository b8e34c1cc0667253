# Pass tests of both languages: text in, text out, checked by FileCheck. ctest runs this with the build's folders
# (see CMakeLists.txt).
import os
import lit.formats

config.name = "lathe"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".relay", ".tir"]
config.excludes = ["tvm"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = lit_config.params["out"]
config.substitutions = [
    ("%opt", lit_config.params["tune"] + " opt"),
    ("%tvm", os.path.join(config.test_source_root, "relay", "tvm")),
    ("FileCheck", lit_config.params["filecheck"]),
    (r"\bnot\b", os.path.join(os.path.dirname(lit_config.params["filecheck"]), "not")),
]
