"""Warm-up requests, which TF Serving answers before a model is ready, so that no user waits.

A server allocates, optimizes and compiles on the first request of each kind, which takes seconds.
It refuses a model that fails on one of the warm-up requests.

https://www.tensorflow.org/tfx/serving/saved_model_warmup
"""

import warnings

import tensorflow as tf

PLACE = "assets.extra/tf_serving_warmup_requests"  # inside of a version


def write_requests(version, model_name, endpoints):
    """Writes the examples of endpoints into a SavedModel, or warns if it cannot.

    Args:
        version: `pathlib.Path` of the SavedModel.
        model_name: Name of the model on the server.
        endpoints: Dictionary of names to `Endpoint`.
    """
    try:
        from tensorflow_serving.apis import predict_pb2, prediction_log_pb2
    except ImportError:
        warnings.warn(
            "The export has no warm-up requests, so that the first requests to a server will take "
            "seconds: tensorflow-serving-api is not installed. To have them, pip install "
            '"keras-attention-zoo[serve]" and export again.',
            stacklevel=2,
        )
        return
    file = version / PLACE
    file.parent.mkdir()
    with tf.io.TFRecordWriter(str(file)) as writer:
        for name, endpoint in endpoints.items():
            for example in endpoint.examples:
                request = predict_pb2.PredictRequest()
                request.model_spec.name = model_name
                request.model_spec.signature_name = name
                for spec, value in zip(endpoint.inputs, example, strict=True):
                    tensor = tf.make_tensor_proto(value, spec.dtype)
                    request.inputs[spec.name].CopyFrom(tensor)
                log = prediction_log_pb2.PredictionLog()
                log.predict_log.request.CopyFrom(request)
                writer.write(log.SerializeToString())
