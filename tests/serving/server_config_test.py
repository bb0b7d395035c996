"""The configuration of TF Serving, read as the server reads it."""

import click.testing
import pytest
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    text_format,
    wrappers_pb2,
)

from zoo.cli import main
from zoo.serving import buckets, write_server_config


@pytest.fixture
def folder(tmp_path):
    """Two models, one in a group and one with two versions, and folders that are no models."""
    for version in ["nmt/1", "nmt/2", "pictures/captions/1", "nmt/.unfinished-3", "other"]:
        (tmp_path / version).mkdir(parents=True)
        (tmp_path / version / "saved_model.pb").touch()
    (tmp_path / "onnx").mkdir()
    return tmp_path


def batching_parameters():
    """`tensorflow.serving.BatchingParameters`, which the Python package of the server lacks."""
    file = descriptor_pb2.FileDescriptorProto(
        name="batching.proto", syntax="proto3", dependency=["google/protobuf/wrappers.proto"]
    )
    message = file.message_type.add(name="BatchingParameters")
    fields = ["max_batch_size", "batch_timeout_micros", "max_enqueued_batches", "num_batch_threads"]
    for number, name in enumerate(fields, 1):
        field = message.field.add(name=name, number=number, label=1, type=11)
        field.type_name = ".google.protobuf.Int64Value"
    message.field.add(name="allowed_batch_sizes", number=6, label=3, type=3)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("BatchingParameters"))()


def monitoring_config():
    """`tensorflow.serving.MonitoringConfig`, which the Python package lacks as well."""
    file = descriptor_pb2.FileDescriptorProto(name="monitoring.proto", syntax="proto3")
    prometheus = file.message_type.add(name="PrometheusConfig")
    prometheus.field.add(name="enable", number=1, label=1, type=8)
    prometheus.field.add(name="path", number=2, label=1, type=9)
    message = file.message_type.add(name="MonitoringConfig")
    field = message.field.add(name="prometheus_config", number=1, label=1, type=11)
    field.type_name = ".PrometheusConfig"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("MonitoringConfig"))()


def models_of(text):
    protos = pytest.importorskip("tensorflow_serving.config.model_server_config_pb2")
    parsed = text_format.Parse(text, protos.ModelServerConfig())
    assert {config.model_platform for config in parsed.model_config_list.config} == {"tensorflow"}
    return [(config.name, config.base_path) for config in parsed.model_config_list.config]


def test_every_model_below_the_folder_is_listed_once(folder):
    models, *_ = write_server_config(folder)
    expected = [("nmt", "/models/nmt"), ("captions", "/models/pictures/captions")]
    assert models_of(models.read_text()) == expected


def test_batches_are_those_that_xla_compiles_for(folder):
    _, batching, _ = write_server_config(folder)
    parameters = text_format.Parse(batching.read_text(), batching_parameters())
    assert parameters.allowed_batch_sizes == list(buckets.ROWS)
    assert parameters.max_batch_size.value == buckets.ROWS[-1]
    assert 0 < parameters.batch_timeout_micros.value < 100_000
    assert parameters.num_batch_threads.value >= 1


def test_names_are_quoted(tmp_path):
    (tmp_path / 'a "model"' / "1").mkdir(parents=True)
    (tmp_path / 'a "model"' / "1" / "saved_model.pb").touch()
    models, *_ = write_server_config(tmp_path)
    assert models_of(models.read_text()) == [('a "model"', '/models/a "model"')]


def test_the_command_writes_both_files(folder):
    arguments = ["serving-config", str(folder), "--seen-as", "/srv/zoo/"]
    result = click.testing.CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    files = [folder / f"{name}.config" for name in ("models", "batching", "monitoring")]
    assert result.stdout.splitlines() == [str(file) for file in files]
    assert models_of(files[0].read_text())[0] == ("nmt", "/srv/zoo/nmt")


def test_metrics_are_for_prometheus(folder):
    *_, monitoring = write_server_config(folder)
    parsed = text_format.Parse(monitoring.read_text(), monitoring_config())
    assert parsed.prometheus_config.enable
    assert parsed.prometheus_config.path == "/monitoring/prometheus/metrics"


def test_a_folder_without_models_is_named(tmp_path):
    with pytest.raises(ValueError, match="no exported model below .*model.export"):
        write_server_config(tmp_path)


def test_two_models_of_one_name_are_told(folder):
    (folder / "old" / "nmt" / "1").mkdir(parents=True)
    (folder / "old" / "nmt" / "1" / "saved_model.pb").touch()
    with pytest.raises(ValueError, match="same name: nmt and old/nmt"):
        write_server_config(folder)
