"""What suite_families.py builds: for each library a list of (family, function that gives a Made)."""

import dataclasses
import inspect
import re

import torch

MOST_PARAMETERS = 60_000_000


@dataclasses.dataclass
class Made:
    model: torch.nn.Module
    args: tuple  # tensors
    names: tuple = ()  # of the arguments; none: positions
    fixed: dict = dataclasses.field(default_factory=dict)


def ids(*shape):
    return torch.arange(3, 3 + torch.Size(shape).numel()).reshape(shape) % 60 + 3


# ---- transformers: every type of configuration, made small by the names of its numbers ----

# (pattern of a number's name, what it becomes where it is larger)
SMALL = ((r"num_.*experts_per_tok|top_k|moe_topk", 2), (r"num_.*experts|n_routed_experts|moe_num_experts", 4),
         (r"num_key_value_heads|num_kv_heads|.*_kv_heads", 2), (r".*head_dim|.*_head_size|d_kv", 8),
         (r".*num_attention_heads|n_heads?|num_heads|.*attention_heads|.*_num_heads|nhead", 4),
         (r".*num_hidden_layers|n_layers?|num_layers|(num_)?(en|de)coder_layers|depth|.*_depth|num_blocks", 2),
         (r".*intermediate_size|d_ff|.*ffn_dim|n_inner|mlp_dim|ffn_hidden_size|.*feedforward.*|.*ffn_size", 64),
         (r".*hidden_size|d_model|n_embd|.*embed_dim|dim|.*embedding_size|.*hidden_dim|.*projection_dim|.*_rank", 32),
         (r"image_size|.*_resolution", 32), (r"patch_size", 8), (r"vocab_size|.*_vocab_size", 128),
         (r"max_position_embeddings|n_positions|max_source_positions|max_target_positions", 64))


def shrunk(config, rules):
    """The numbers of a configuration, and of those inside it, that `rules` make small."""
    changed = {}
    for key, value in vars(config).items():
        if hasattr(value, "model_type"):
            changed[key] = shrunk(value, rules)
        elif isinstance(value, int) and not isinstance(value, bool):
            if key.endswith("token_id") or key.endswith("token_index"):
                small = value if value < 100 else 100 + len(key) % 20
            else:
                small = next((n for pattern, n in rules if re.fullmatch(pattern, key)), value)
            if small < value:
                changed[key] = small
    return changed


def candidates(config):
    """Arguments that models take, likelier ones first."""
    side = getattr(config, "image_size", None) or getattr(getattr(config, "vision_config", None), "image_size", None) or 32
    side = side if isinstance(side, int) else side[0]
    channels = getattr(config, "num_channels", 3)
    image, words = torch.rand(1, channels if isinstance(channels, int) else 3, side, side), ids(1, 9)
    bins = getattr(config, "num_mel_bins", getattr(config, "input_feat_per_channel", 80))
    return (("input_ids", words),), (("input_ids", words), ("decoder_input_ids", ids(1, 5))), \
        (("pixel_values", image),), (("pixel_values", torch.rand(1, 3, 64, 64)),), (("pixel_values", torch.rand(1, 3, 224, 224)),), \
        (("input_values", torch.randn(1, 4000)),), (("input_features", torch.randn(1, bins, 128)),), \
        (("input_features", torch.randn(1, 64, bins)),), \
        (("input_features", torch.randn(1, bins, 128)), ("decoder_input_ids", ids(1, 5))), \
        (("input_values", torch.randn(1, 4000)), ("decoder_input_ids", ids(1, 5))), \
        (("input_ids", words), ("pixel_values", image)), (("pixel_values", image), ("decoder_input_ids", ids(1, 5))), \
        (("pixel_values", torch.rand(1, 4, 3, side, side)),), (("pixel_values_videos", torch.rand(1, 4, 3, side, side)),), \
        (("input_ids", words), ("bbox", torch.zeros(1, 9, 4, dtype=torch.int64))), (("inputs_embeds", torch.randn(1, 9, 32)),), \
        (("past_values", torch.randn(1, 64)),), (("past_values", torch.randn(1, 64, 1)),), (("inputs", words),), \
        (("pixel_values", image), ("input_ids", words), ("attention_mask", torch.ones(1, 9, dtype=torch.int64)))


def parameters_of(model):
    return sum(p.numel() for p in model.parameters())


def transformers_model(kind):
    """The smallest that can be built and run; the first error where there is none."""
    from transformers import AutoModel
    widths = tuple(r for r in SMALL if r[1] != 32)
    counts = tuple(r for r in SMALL if r[1] in (2, 128) and "heads" not in r[0])
    failed = None
    for rules in (SMALL, widths, counts):
        try:
            config = kind(**shrunk(kind(), rules))
            with torch.device("meta"):
                count = parameters_of(AutoModel.from_config(config))
            if count > MOST_PARAMETERS:
                raise ValueError(f"{count} parameters, made as small as names say")
            return with_arguments(AutoModel.from_config(config).eval(), config)
        except Exception as error:
            failed = failed or error
    raise failed


def with_arguments(model, config):
    failed = None
    fixed = {"use_cache": False} if "use_cache" in inspect.signature(model.forward).parameters else {}
    for arguments in candidates(config):
        names, values = zip(*arguments)
        try:
            model(**dict(arguments), **fixed)
            return Made(model, values, names, fixed)
        except Exception as error:
            failed = failed or error
    raise failed


def transformers_families():
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES
    import transformers
    for name in sorted(MODEL_MAPPING_NAMES):
        config = CONFIG_MAPPING_NAMES.get(name)
        if config:
            yield name, lambda config=config: transformers_model(getattr(transformers, config))


# ---- images ----


def smallest(names, create):
    """The one of `names` that has the fewest parameters."""
    sizes = {}
    for name in names:
        try:
            with torch.device("meta"):
                sizes[name] = parameters_of(create(name))
        except Exception:
            continue
    return min(sizes, key=sizes.get, default=names[0])


def timm_model(module):
    import timm
    name = smallest(timm.list_models(module=module)[:12], timm.create_model)
    model = timm.create_model(name)
    size = getattr(model, "default_cfg", {}).get("input_size", (3, 224, 224))
    if not getattr(model, "default_cfg", {}).get("fixed_input_size", False):
        size = (size[0], min(size[1], 128), min(size[2], 128))
    return Made(model, (torch.rand(1, *size),))


def timm_families():
    import timm
    for module in timm.list_modules():
        yield module, lambda module=module: timm_model(module)


def torchvision_model(module, names):
    import torchvision.models as there
    options = {"weights_backbone": None} if module.startswith("segmentation") else {}
    name = smallest(names, lambda n: there.get_model(n, weights=None, **options))
    side = {"inception": 139, "maxvit": 224, "vision_transformer": 224, "alexnet": 128}.get(module, 96)
    shape = (1, 3, 16, 224, 224) if re.search("mvit|s3d", name) else (1, 3, 8, 64, 64) if "video" in module else (1, 3, side, side)
    return Made(there.get_model(name, weights=None, **options), (torch.rand(shape),))


def torchvision_families():
    import torchvision.models as there
    spaces = {}
    for name in there.list_models():
        build = there.get_model_builder(name)
        spaces.setdefault(build.__module__.removeprefix("torchvision.models."), []).append(name)
    for module, names in sorted(spaces.items()):
        if not module.startswith(("detection", "quantization", "optical_flow")):
            yield module, lambda module=module, names=names: torchvision_model(module, names)


# ---- the others: options that make them small ----

BLOCKS = {"block_out_channels": (32, 64), "layers_per_block": 1, "norm_num_groups": 8}
DIFFUSERS = {
    "UNet2DModel": (dict(BLOCKS, sample_size=16, in_channels=4, out_channels=4, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                         up_block_types=("AttnUpBlock2D", "UpBlock2D")), "noise"),
    "UNet2DConditionModel": (dict(BLOCKS, sample_size=16, cross_attention_dim=32, attention_head_dim=8,
                                  down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
                                  up_block_types=("CrossAttnUpBlock2D", "UpBlock2D")), "conditioned"),
    "UNet3DConditionModel": (dict(BLOCKS, sample_size=8, cross_attention_dim=32, attention_head_dim=8,
                                  down_block_types=("CrossAttnDownBlock3D", "DownBlock3D"),
                                  up_block_types=("UpBlock3D", "CrossAttnUpBlock3D")), "video"),
    "UNet1DModel": (dict(block_out_channels=(32, 64), sample_size=32, in_channels=4, out_channels=4, extra_in_channels=64,
                         down_block_types=("DownBlock1DNoSkip", "DownBlock1D"), up_block_types=("UpBlock1D", "UpBlock1DNoSkip")),
                    "line"),
    "AutoencoderKL": (dict(BLOCKS, down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2), "image"),
    "AutoencoderTiny": (dict(encoder_block_out_channels=(16, 16), decoder_block_out_channels=(16, 16), num_encoder_blocks=(1, 1),
                             num_decoder_blocks=(1, 1)), "image"),
    "AsymmetricAutoencoderKL": (dict(down_block_out_channels=(32, 64), up_block_out_channels=(32, 64), norm_num_groups=8,
                                     down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2), "image"),
    "VQModel": (dict(BLOCKS, down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
                     num_vq_embeddings=32), "image"),
    "DiTTransformer2DModel": (dict(num_attention_heads=2, attention_head_dim=16, in_channels=4, num_layers=2, sample_size=16,
                                   norm_num_groups=8), "classes"),
    "PixArtTransformer2DModel": (dict(num_attention_heads=2, attention_head_dim=16, num_layers=2, sample_size=16, caption_channels=32,
                                      cross_attention_dim=32, use_additional_conditions=False), "conditioned"),
    "SD3Transformer2DModel": (dict(sample_size=16, in_channels=4, num_layers=2, attention_head_dim=8, num_attention_heads=4,
                                   joint_attention_dim=32, caption_projection_dim=32, pooled_projection_dim=32, out_channels=4), "pooled"),
    "PriorTransformer": (dict(num_attention_heads=2, attention_head_dim=16, num_layers=2, embedding_dim=32, num_embeddings=7), "prior"),
    "UVit2DModel": (dict(hidden_size=32, cond_embed_dim=32, encoder_hidden_size=32, num_hidden_layers=1, num_attention_heads=4,
                         intermediate_size=64, micro_cond_encode_dim=8, micro_cond_embed_dim=40, block_out_channels=32,
                         in_channels=32, vocab_size=64, codebook_size=64), "codes"),
}
STEP = torch.tensor([7])
DIFFUSERS_ARGS = {
    "noise": lambda: ({"sample": torch.randn(1, 4, 16, 16), "timestep": STEP}),
    "conditioned": lambda: ({"sample": torch.randn(1, 4, 16, 16), "timestep": STEP, "encoder_hidden_states": torch.randn(1, 6, 32)}),
    "video": lambda: ({"sample": torch.randn(1, 4, 2, 8, 8), "timestep": STEP, "encoder_hidden_states": torch.randn(1, 6, 32)}),
    "line": lambda: ({"sample": torch.randn(1, 4, 32), "timestep": STEP}),
    "image": lambda: ({"sample": torch.randn(1, 3, 32, 32)}),
    "classes": lambda: ({"hidden_states": torch.randn(1, 4, 16, 16), "timestep": STEP, "class_labels": torch.tensor([3])}),
    "pooled": lambda: ({"hidden_states": torch.randn(1, 4, 16, 16), "timestep": STEP, "encoder_hidden_states": torch.randn(1, 6, 32),
                        "pooled_projections": torch.randn(1, 32)}),
    "prior": lambda: ({"hidden_states": torch.randn(1, 32), "timestep": STEP, "proj_embedding": torch.randn(1, 32),
                       "encoder_hidden_states": torch.randn(1, 7, 32)}),
    "codes": lambda: ({"input_ids": ids(1, 8, 8), "encoder_hidden_states": torch.randn(1, 6, 32), "pooled_text_emb": torch.randn(1, 32),
                       "micro_conds": torch.rand(1, 5)}),
}


def diffusers_model(name):
    import diffusers
    options, kind = DIFFUSERS[name]
    arguments = DIFFUSERS_ARGS[kind]()
    model = getattr(diffusers, name)(**options)
    first = list(inspect.signature(model.forward).parameters)[0]  # "sample" or "hidden_states"
    names = tuple(first if i == 0 else key for i, key in enumerate(arguments))
    fixed = {"return_dict": False} if "return_dict" in inspect.signature(model.forward).parameters else {}
    return Made(model, tuple(arguments.values()), names, fixed)


def diffusers_families():
    for name in DIFFUSERS:
        yield name, lambda name=name: diffusers_model(name)


EDGES = [[0, 1, 2, 3, 4, 0, 2], [1, 2, 3, 4, 0, 3, 0]]
GEOMETRIC = {"GCN": {}, "GraphSAGE": {}, "GIN": {}, "GAT": {"heads": 2}, "EdgeCNN": {},
             "PNA": {"aggregators": ["mean", "max", "std"], "scalers": ["identity", "amplification"], "deg": torch.tensor([0, 3, 2])}}
CONVOLUTIONS = {"GCNConv": {}, "ChebConv": {"K": 3}, "SAGEConv": {}, "GraphConv": {}, "GATConv": {"heads": 2}, "GATv2Conv": {"heads": 2},
                "TransformerConv": {"heads": 2}, "TAGConv": {}, "ARMAConv": {}, "SGConv": {"K": 2}, "LEConv": {}, "ClusterGCNConv": {},
                "ResGatedGraphConv": {}, "GENConv": {}, "SuperGATConv": {}, "FeaStConv": {}, "FiLMConv": {}, "MFConv": {},
                "GeneralConv": {}, "EGConv": {}, "SSGConv": {"alpha": 0.1}, "LGConv": None, "APPNP": (2, 0.1), "GatedGraphConv": (8, 2)}


def geometric_model(name):
    import torch_geometric.nn as there
    edges, x = torch.tensor(EDGES), torch.randn(5, 8)
    if name in GEOMETRIC:
        model = getattr(there, name)(8, 16, 2, 4, **GEOMETRIC[name])
    else:
        options = CONVOLUTIONS[name]
        make = getattr(there, name)
        model = make() if options is None else make(*options) if isinstance(options, tuple) else make(8, 8, **options)
    return Made(model, (x, edges), ("x", "edge_index"))


def geometric_families():
    for name in (*GEOMETRIC, *CONVOLUTIONS):
        yield name, lambda name=name: geometric_model(name)


VOLUME, PLANE = (1, 1, 32, 32, 32), (1, 1, 32, 32)
MONAI = {
    "UNet": (dict(spatial_dims=3, in_channels=1, out_channels=2, channels=(4, 8, 16), strides=(2, 2), num_res_units=1), VOLUME),
    "BasicUNet": (dict(spatial_dims=2, in_channels=1, out_channels=2, features=(4, 4, 8, 8, 16, 4)), PLANE),
    "BasicUNetPlusPlus": (dict(spatial_dims=2, in_channels=1, out_channels=2, features=(4, 4, 8, 8, 16, 4)), PLANE),
    "AttentionUnet": (dict(spatial_dims=2, in_channels=1, out_channels=2, channels=(4, 8, 16), strides=(2, 2)), PLANE),
    "DynUNet": (dict(spatial_dims=2, in_channels=1, out_channels=2, kernel_size=(3, 3, 3), strides=(1, 2, 2), upsample_kernel_size=(2, 2),
                     filters=(4, 8, 16)), PLANE),
    "SegResNet": (dict(spatial_dims=3, init_filters=8, in_channels=1, out_channels=2, blocks_down=(1, 1), blocks_up=(1,)), VOLUME),
    "SegResNetDS": (dict(spatial_dims=2, init_filters=8, in_channels=1, out_channels=2, blocks_down=(1, 1)), PLANE),
    "VNet": (dict(spatial_dims=3, in_channels=1, out_channels=2), VOLUME),
    "UNETR": (dict(in_channels=1, out_channels=2, img_size=(32, 32, 32), feature_size=8, hidden_size=48, mlp_dim=64, num_heads=4), VOLUME),
    "SwinUNETR": (dict(in_channels=1, out_channels=2, feature_size=12, spatial_dims=3, depths=(1, 1, 1, 1), num_heads=(1, 2, 2, 2)),
                  (1, 1, 64, 64, 64)),
    "ViT": (dict(in_channels=1, img_size=(32, 32), patch_size=(8, 8), hidden_size=32, mlp_dim=64, num_layers=2, num_heads=4,
                 spatial_dims=2, classification=True), PLANE),
    "ViTAutoEnc": (dict(in_channels=1, img_size=(64, 64), patch_size=(16, 16), hidden_size=32, mlp_dim=64, num_layers=2, num_heads=4,
                        spatial_dims=2), (1, 1, 64, 64)),
    "DenseNet": (dict(spatial_dims=2, in_channels=1, out_channels=2, init_features=8, growth_rate=4, block_config=(2, 2)), PLANE),
    "SEResNet50": (dict(spatial_dims=2, in_channels=1, num_classes=2), PLANE),
    "ResNet": (dict(block="basic", layers=[1, 1, 1, 1], block_inplanes=[4, 8, 8, 16], spatial_dims=2, n_input_channels=1, num_classes=2),
               PLANE),
    "EfficientNetBN": (dict(model_name="efficientnet-b0", spatial_dims=2, in_channels=1, num_classes=2, pretrained=False), PLANE),
    "HighResNet": (dict(spatial_dims=3, in_channels=1, out_channels=2), (1, 1, 16, 16, 16)),
    "AutoEncoder": (dict(spatial_dims=2, in_channels=1, out_channels=1, channels=(4, 8), strides=(2, 2)), PLANE),
    "Regressor": (dict(in_shape=(1, 32, 32), out_shape=(2,), channels=(4, 8), strides=(2, 2)), PLANE),
    "Classifier": (dict(in_shape=(1, 32, 32), classes=3, channels=(4, 8), strides=(2, 2)), PLANE),
    "Discriminator": (dict(in_shape=(1, 32, 32), channels=(4, 8), strides=(2, 2)), PLANE),
    "Generator": (dict(latent_shape=(12,), start_shape=(8, 8, 8), channels=(8, 4, 1), strides=(2, 2, 1)), (1, 12)),
    "AHNet": (dict(spatial_dims=2, in_channels=1, out_channels=2, upsample_mode="bilinear"), (1, 1, 128, 128)),
    "MILModel": (dict(num_classes=2, pretrained=False, mil_mode="att"), (1, 2, 3, 64, 64)),
    "FlexibleUNet": (dict(in_channels=1, out_channels=2, backbone="efficientnet-b0", pretrained=False, spatial_dims=2), PLANE),
    "TorchVisionFCModel": (dict(model_name="resnet18", num_classes=2, pretrained=False), (1, 3, 224, 224)),
}


def monai_model(name):
    import monai.networks.nets as there
    options, shape = MONAI[name]
    return Made(getattr(there, name)(**options), (torch.rand(shape),))


def monai_families():
    for name in MONAI:
        yield name, lambda name=name: monai_model(name)


LIBRARIES = {"transformers": transformers_families, "timm": timm_families, "torchvision": torchvision_families,
             "diffusers": diffusers_families, "torch_geometric": geometric_families, "monai": monai_families}
