"""Whether Keras finds the ImageNet weights of MobileNetV2 without a download."""

import os
import pathlib

FILE = "mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_224_no_top.h5"
KERAS_HOME = pathlib.Path(os.environ.get("KERAS_HOME", "~/.keras")).expanduser()
ARE_HERE = (KERAS_HOME / "models" / FILE).is_file()
REASON = f"{KERAS_HOME} has no {FILE}"
