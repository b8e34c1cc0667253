# Pass tests: text in, text out, checked by FileCheck. ctest runs this with the build's folders (see CMakeLists.txt).
import os
import lit.formats

config.name = "relay"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".relay"]
config.excludes = ["tvm"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = lit_config.params["out"]
config.substitutions = [
    ("%opt", lit_config.params["tune"] + " opt"),
    ("%tvm", os.path.join(config.test_source_root, "tvm")),
    ("FileCheck", lit_config.params["filecheck"]),
    (r"\bnot\b", os.path.join(os.path.dirname(lit_config.params["filecheck"]), "not")),
]
