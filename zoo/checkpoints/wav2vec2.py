"""wav2vec 2.0 (Baevski et al. 2020) and HuBERT (Hsu et al. 2021), models of samples."""

import re
import warnings

import keras

from zoo.checkpoints.activations import activation
from zoo.checkpoints.names import Names, Turned
from zoo.checkpoints.plan import Plan
from zoo.checkpoints.preprocessor import preprocessor_of
from zoo.checkpoints.settings import REGRESSION, Settings, settings_of_labels
from zoo.readers.text.ctc import read_ctc_tokenizer
from zoo.readers.wave_reader import WaveReader

FAMILIES = {"hubert": "Hubert", "wav2vec2": "Wav2Vec2"}  # and the beginnings of their classes
RECOGNIZES, CLASSIFIES = "ForCTC", "ForSequenceClassification"
WITHOUT_LABELS = "Model", "ForPreTraining"  # which need new ones
WITH_LANGUAGE_MODEL = "Wav2Vec2ProcessorWithLM"
LARGEST = 2**20  # bytes
_KERNEL = "encoder.pos_conv_embed.conv.parametrizations.weight"  # behind the prefix
_LAYER = "encoder.layers.{}"
_TABLE = {
    "feature_norm": "feature_projection.layer_norm",
    "projection": "feature_projection.projection",
    "place.scale": f"{_KERNEL}.original0",
    "place.direction": Turned(f"{_KERNEL}.original1"),
    "place.bias": "encoder.pos_conv_embed.conv.bias",
    "norm": "encoder.layer_norm",
    "blocks.{}.attention.query_projection": f"{_LAYER}.attention.q_proj",
    "blocks.{}.attention.key_projection": f"{_LAYER}.attention.k_proj",
    "blocks.{}.attention.value_projection": f"{_LAYER}.attention.v_proj",
    "blocks.{}.attention.output_projection": f"{_LAYER}.attention.out_proj",
    "blocks.{}.attention_norm": f"{_LAYER}.layer_norm",
    "blocks.{}.feed_forward.inner": f"{_LAYER}.feed_forward.intermediate_dense",
    "blocks.{}.feed_forward.outer": f"{_LAYER}.feed_forward.output_dense",
    "blocks.{}.feed_forward_norm": f"{_LAYER}.final_layer_norm",
}
_OF_LABELS = {"projector": "projector", "head": "classifier"}
_OF_MASKS = "masked_spec_embed"  # what hides parts of sounds in training, behind the prefix
_OF_TRAINING = (  # and of pre-training
    "apply_spec_augment",
    "codevector_dim",
    "contrastive_logits_temperature",
    "ctc_loss_reduction",
    "ctc_zero_infinity",
    "diversity_loss_weight",
    "feat_extract_dropout",  # of older files, without an effect
    "feat_quantizer_dropout",
    "freeze_feat_extract_train",
    "layerdrop",
    "no_mask_channel_overlap",
    "no_mask_time_overlap",
    "num_codevector_groups",
    "num_codevectors_per_group",
    "num_negatives",
    "proj_codevector_dim",
)
_AXES = "channel", "feature", "time"  # of what is masked in training
_MASKS = "length", "min_masks", "min_space", "other", "prob", "selection"
_OF_OTHERS = (  # classes
    "adapter_kernel_size",
    "adapter_stride",
    "num_adapter_layers",
    "output_hidden_size",
    "tdnn_dilation",
    "tdnn_dim",
    "tdnn_kernel",
    "xvector_output_dim",
)


def plan(settings, folder):
    family = FAMILIES[settings.model_type]
    without_labels = [family + each for each in WITHOUT_LABELS]
    settings.require_class([family + RECOGNIZES, family + CLASSIFIES, *without_labels])
    if settings.architecture in without_labels and not settings.new_labels:
        raise ValueError(
            f"{settings.path} is the config of a {settings.architecture}, which has no head. To "
            "classify sounds with a new one, pass labels=['one', 'another'] to zoo.load; for "
            f"texts, load a checkpoint of a {family + RECOGNIZES}."
        )
    options = _options(settings, folder)
    prefix = f"{settings.model_type}."
    table = _TABLE | _table_of_convolutions(options)
    table = {path: _behind(prefix, name) for path, name in table.items()}
    names = Names(table, prefix, unused=(rf"({re.escape(prefix)})?{_OF_MASKS}",))
    size = settings.take("vocab_size", default=32)
    if settings.new_labels is None and settings.architecture == family + RECOGNIZES:
        settings.ignore("classifier_proj_size", "use_weighted_layer_sum")
        options["head_dropout"] = settings.take("final_dropout", default=0.1)
        names = names._replace(table=table | {"head": "lm_head"})
        return Plan("wav2vec2_ctc", options, names, size)
    return _classifier(settings, family, options, names)


tokenizer = read_ctc_tokenizer


def _classifier(settings, family, options, names):
    settings.ignore("final_dropout")
    has_head = settings.architecture == family + CLASSIFIES
    options |= {
        "projection_size": settings.take("classifier_proj_size", default=256),
        "mixes_states": settings.take("use_weighted_layer_sum", default=False) and has_head,
        "labels": settings.new_labels or settings.labels,
        "problem_type": settings.problem_type,
    }
    if options["problem_type"] == REGRESSION:
        raise ValueError(
            f"{settings.path} is of a regression model of sounds, which is not implemented."
        )
    of_head = _OF_LABELS | ({"shares": "layer_weights"} if options["mixes_states"] else {})
    names = names._replace(table=names.table | of_head)
    if settings.new_labels:
        of_model = {
            "architectures": [family + CLASSIFIES],
            "classifier_proj_size": options["projection_size"],
            "use_weighted_layer_sum": options["mixes_states"],
        }
        of_labels = settings_of_labels(settings.new_labels, options["problem_type"])
        names = names.with_new_head("head", of_model | of_labels)
        names = names._replace(carried=(names.prefix + _OF_MASKS,))
        if not has_head:  # then the layer before it is new, too
            layer = "projector"
            names = names._replace(
                table={path: name for path, name in names.table.items() if path != layer},
                fresh=(*names.fresh, layer),
                new_head=names.new_head | {layer: _OF_LABELS[layer]},
                unused=(*names.unused, r"(lm_head|quantizer|project_hid|project_q)\..*"),
            )
    return Plan("wav2vec2", options, names)


def _options(settings, folder):
    """Returns the options of every model."""
    settings.require(
        adapter_attn_dim=None,
        add_adapter=False,
        conv_pos_batch_norm=False,
        feat_extract_activation="gelu",
        feat_proj_layer_norm=True,
    )
    settings.ignore(*_OF_TRAINING, *_OF_OTHERS)
    settings.ignore(*(f"mask_{axis}_{what}" for axis in _AXES for what in _MASKS))
    filters = settings.take("conv_dim", default=[512] * 7)
    settings.require(num_feat_extract_layers=len(filters))
    is_before = settings.take("do_stable_layer_norm", default=False)
    return {
        "num_layers": settings.take("num_hidden_layers"),
        "size": settings.take("hidden_size"),
        "num_heads": settings.take("num_attention_heads"),
        "hidden": settings.take("intermediate_size"),
        "normalize": "pre" if is_before else "post",
        "activation": activation(settings, settings.take("hidden_act", default="gelu")),
        "dropout": settings.take("hidden_dropout", "hidden_dropout_prob", default=0.1),
        "attention_dropout": settings.take("attention_dropout", default=0.1),
        "hidden_dropout": settings.take("activation_dropout", default=0.1),
        "epsilon": settings.take("layer_norm_eps", default=1e-5),
        "filters": filters,
        "kernel_sizes": settings.take("conv_kernel", default=[10, 3, 3, 3, 3, 2, 2]),
        "strides": settings.take("conv_stride", default=[5, 2, 2, 2, 2, 2, 2]),
        "convolution_norm": settings.take("feat_extract_norm", default="group"),
        "convolution_bias": settings.take("conv_bias", default=False),
        "position_kernel_size": settings.take("num_conv_pos_embeddings", default=128),
        "position_groups": settings.take("num_conv_pos_embedding_groups", default=16),
        "feature_dropout": settings.take("feat_proj_dropout", default=0.0),
        "reader": _reader(folder),
    }


def _reader(folder):
    """Returns the config of the reader."""
    found = Settings(*preprocessor_of(folder, "feature_extractor", LARGEST))
    found.require(feature_size=1, padding_value=0.0, padding_side="right")
    found.ignore("feature_extractor_type", "feature_dim")  # the latter is of older files
    if found.take("processor_class", default=None) == WITH_LANGUAGE_MODEL:
        warnings.warn(
            f"{found.path} names a {WITH_LANGUAGE_MODEL}. A language model is not implemented: "
            "texts are those of the best label at each time step.",
            stacklevel=2,
        )
    # Without a mask, the numbers of a sound depend on the others in its batch in transformers. Here
    # they are always those that it has alone.
    found.ignore("return_attention_mask")
    reader = WaveReader(
        rate=found.take("sampling_rate", default=16000),
        normalize=found.take("do_normalize", default=True),
    )
    found.require_all_seen()
    return keras.saving.serialize_keras_object(reader)


def _table_of_convolutions(options):
    convolutions = range(len(options["filters"]))
    norms = convolutions[:1] if options["convolution_norm"] == "group" else convolutions
    layer = "feature_extractor.conv_layers"
    return {f"subsampling.convolutions.{i}": f"{layer}.{i}.conv" for i in convolutions} | {
        f"subsampling.norms.{i}": f"{layer}.{i}.layer_norm" for i in norms
    }


def _behind(prefix, name):
    """Returns a rule of the table for the name of a model with a head."""
    return Turned(prefix + name.name) if isinstance(name, Turned) else prefix + name
