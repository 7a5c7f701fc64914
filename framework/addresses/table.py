"""Tables of PyTorch's addresses: what stands where, and what is not here."""

from __future__ import annotations

LAZY = tuple(
    """
    accelerator amp backends compiler cpu cuda data debug distributed distributions func
    futures fx graph hub io library lora models mps multiprocessing nested optim
    overrides profiler sparse testing types utils xpu nn.parallel nn.utils.prune
    utils.benchmark utils.flop_counter utils.tensorboard
    """.split()
)
"""Modules that are files here, and are imported when they are asked for."""

LAZY_NAMES = {
    "AcceleratorError": "cuda:AcceleratorError",
    "Future": "futures:Future",
    "FusionReport": "debug.fusion_report:FusionReport",
    "GradScaler": "optim.grad_scaler:GradScaler",
    "OutOfMemoryError": "cuda:OutOfMemoryError",
    "PyTorchFileReader": "io.archive_reader:PyTorchFileReader",
    "QuantizedTensor": "tensor.quantized:QuantizedTensor",
    "fusion_report": "debug.fusion_report:fusion_report",
    "load": "io.serialization:load",
    "profile": "debug.profiler:profile",
    "quantize": "tensor.quantized:quantize",
    "save": "io.serialization:save",
    "sparse_compressed_tensor": "sparse.construct:sparse_compressed_tensor",
    "sparse_coo_tensor": "sparse.construct:sparse_coo_tensor",
    "sparse_csc_tensor": "sparse.construct:sparse_csc_tensor",
    "sparse_csr_tensor": "sparse.construct:sparse_csr_tensor",
    "vmap": "func.vmap:vmap",
}
"""Names of the library's own namespace in such modules."""

_LAYERS = """
activation adaptive batchnorm channelshuffle container conv distance dropout flatten
fold instancenorm lazy linear loss normalization padding pixelshuffle pooling rnn
sparse transformer upsampling
""".split()

_CUDA = "There is no CUDA."

_DISTRIBUTIONS = {
    "location_scale": "cauchy gumbel half_cauchy laplace uniform",
    "bernoulli": "binomial continuous_bernoulli geometric negative_binomial",
    "beta": "dirichlet kumaraswamy",
    "gamma": "chi2 exponential fishersnedecor inverse_gamma studentT",
    "categorical": "multinomial one_hot_categorical",
    "derived": "independent mixture_same_family transformed_distribution",
    "transformed": (
        "log_normal logistic_normal pareto relaxed_bernoulli relaxed_categorical"
        " weibull generalized_pareto"
    ),
    "normal": "half_normal",
    "multivariate_normal": "lowrank_multivariate_normal",
    "lkj": "lkj_cholesky",
    "distribution": "exp_family",
}
"""Modules of distributions, and PyTorch's that they take the place of."""

Entry = tuple[tuple[str, ...], dict[str, str]]

ADDRESSES: dict[str, Entry] = {
    "nn.modules": (("nn",), {}),
    **{f"nn.modules.{name}": (("nn",), {}) for name in _LAYERS},
    "nn.modules.activation": (("nn", "nn.activation"), {}),
    "nn.modules.batchnorm": (
        ("nn", "nn.batchnorm"),
        {"_NormBase": "nn.batchnorm:NormBase"},
    ),
    "nn.modules.conv": (
        ("nn", "nn.conv"),
        {
            "_ConvNd": "nn.conv:Convolution",
            "_ConvTransposeNd": "nn.conv:_Transposed",
            "_ConvTransposeMixin": "nn.conv:_Transposed",
        },
    ),
    "nn.modules.dropout": (("nn",), {"_DropoutNd": "nn.dropout:_Dropout"}),
    "nn.modules.instancenorm": (("nn", "nn.norm"), {}),
    "nn.modules.lazy": (("nn", "nn.lazy"), {}),
    "nn.modules.linear": (("nn", "nn.linear"), {}),
    "nn.modules.loss": (
        ("nn",),
        {"_Loss": "nn.loss:Loss", "_WeightedLoss": "nn.loss:_Weighted"},
    ),
    "nn.modules.module": (("nn", "nn.module", "nn.module_hooks", "nn.module_tree"), {
        "_IncompatibleKeys": "nn.state_dict:IncompatibleKeys",
    }),
    "nn.modules.padding": (
        ("nn",),
        {"_ConstantPadNd": "nn.padding:_ConstantPad"},
    ),
    "nn.modules.pooling": (
        ("nn",),
        {
            "_MaxPoolNd": "nn.pooling:_MaxPool",
            "_AvgPoolNd": "nn.pooling:_Window",
            "_AdaptiveAvgPoolNd": "nn.pooling:_AdaptiveAvg",
            "_AdaptiveMaxPoolNd": "nn.pooling:_AdaptiveMax",
            "_MaxUnpoolNd": "nn.unpooling:_MaxUnpool",
            "_LPPoolNd": "nn.pooling:_Powers",
        },
    ),
    "nn.modules.transformer": (
        ("nn",),
        {
            "_get_clones": "nn.transformer:_copies",
            "_get_activation_fn": "nn.transformer:_get_activation_fn",
        },
    ),
    "nn.modules.utils": (("nn.sizes",), {}),
    "nn.common_types": (("nn.sizes",), {}),
    "nn.grad": (("nn.functional",), {}),
    "nn.parallel.distributed": (("nn.parallel",), {}),
    "nn.parallel.data_parallel": (("nn.parallel",), {}),
    "nn.utils.clip_grads": (("nn.utils",), {}),
    "optim.adamw": (("optim.adam",), {}),
    "optim.adamax": (("optim.adam_variants",), {}),
    "optim.nadam": (("optim.adam_variants",), {}),
    "optim.radam": (("optim.adam_variants",), {}),
    "optim.adadelta": (("optim.rmsprop",), {}),
    "optim.adagrad": (("optim.rmsprop",), {}),
    "optim.asgd": (("optim.rprop",), {}),
    "utils.data.dataloader": (("data", "data.dataloader", "data.collate"), {}),
    "utils.data.dataset": (("data", "data.dataset"), {"T_co": "data.dataset:Sample"}),
    "utils.data.sampler": (("data", "data.sampler"), {}),
    "utils.data.distributed": (("data",), {}),
    "utils.data._utils": ((), {}),
    "utils.data._utils.collate": (("data", "data.collate"), {}),
    "utils.data._utils.worker": (("data", "data.worker"), {}),
    "autograd.forward_ad": (("func.forward_ad",), {}),
    "utils.hooks": (("base.hooks",), {}),
    "utils.dlpack": ((), {"to_dlpack": ":to_dlpack", "from_dlpack": ":from_dlpack"}),
    "utils.model_zoo": (("hub",), {"load_url": "hub:load_state_dict_from_url"}),
    "utils._pytree": (("func.tree",), {}),
    "utils._foreach_utils": (("tensor.foreach",), {}),
    "_subclasses": (("torchscript",), {}),
    "_subclasses.fake_tensor": ((), {"is_fake": "torchscript:is_fake"}),
    "torch_version": (("version",), {}),
    "amp.autocast_mode": (("amp", "base.modes"), {}),
    "amp.grad_scaler": (("amp", "optim.grad_scaler"), {}),
    "cuda.amp.autocast_mode": (("amp",), {}),
    "cuda.amp.grad_scaler": (("amp",), {}),
    "cuda.random": (("cuda",), {}),
    "cuda.memory": (("cuda",), {}),
    "cuda.nvtx": ((), {
        "range": "profiler:record_function",
        "range_push": "profiler:range_push",
        "range_pop": "profiler:range_pop",
        "mark": "profiler:mark",
    }),
    "autograd.profiler": (("profiler",), {"emit_itt": "profiler:emit_nvtx"}),
    "serialization": (
        ("io.serialization", "io.locations"),
        {
            "DEFAULT_PROTOCOL": "io.serialization:PROTOCOL",
            "MAP_LOCATION": "io.serialization:Location",
        },
    ),
    "storage": (("tensor.storage",), {}),
    "functional": (("",), {}),
    "fx._symbolic_trace": (("fx.tracer",), {}),
    "jit.annotations": (("python.typing",), {}),
    "_jit_internal": (
        ("python.typing", "torchscript"),
        {"boolean_dispatch": "torchscript:boolean_dispatch"},
    ),
    "distributed.algorithms": ((), {}),
    "distributed.algorithms.ddp_comm_hooks.default_hooks": (
        ("distributed.default_hooks",),
        {},
    ),
    "distributed.constants": (("distributed",), {}),
    "distributed.nn": (("distributed.differentiable",), {}),
    "distributed.nn.functional": (("distributed.differentiable",), {}),
    "distributed.fsdp": (("distributed.sharding", "distributed.fully_sharded"), {}),
    "distributed.fsdp.api": (("distributed.sharding",), {}),
    "distributed.fsdp.fully_sharded_data_parallel": (
        ("distributed.sharding", "distributed.fully_sharded"),
        {},
    ),
    "distributed.fsdp.sharded_grad_scaler": (("distributed.fully_sharded",), {}),
    "distributed.fsdp.wrap": (("distributed.wrap_policy",), {}),
    "distributed.tensor": (
        ("distributed.placement",),
        {
            "DeviceMesh": "distributed:DeviceMesh",
            "init_device_mesh": "distributed:init_device_mesh",
        },
    ),
    "distributed.tensor.placement_types": (("distributed.placement",), {}),
    "distributed.tensor.parallel": (("distributed.placement",), {}),
    "distributed.tensor.parallel.style": (("distributed.placement",), {}),
    "distributed.checkpoint": (("distributed.state_files",), {}),
    "distributed.checkpoint.filesystem": (("distributed.state_files",), {}),
    "distributed.checkpoint.default_planner": (("distributed.state_files",), {}),
    "distributed.checkpoint.optimizer": (("distributed.state_files",), {}),
    "distributed.checkpoint.state_dict_saver": (("distributed.state_files",), {}),
    "distributed.checkpoint.state_dict_loader": (("distributed.state_files",), {}),
    "distributed.checkpoint.state_dict": (("distributed.named_states",), {}),
    "distributed.distributed_c10d": (("distributed",), {}),
    "distributed.elastic": ((), {}),
    "distributed.elastic.multiprocessing": ((), {}),
    "distributed.elastic.multiprocessing.errors": (
        (),
        {"record": "torchscript:export"},
    ),
    "__config__": ((), {"show": "runtime:show_config"}),
    "_C": (
        (),
        {
            "DisableTorchFunction": "overrides:DisableTorchFunction",
            "DisableTorchFunctionSubclass": "overrides:DisableTorchFunctionSubclass",
            "Future": "futures:Future",
            "_are_functorch_transforms_active": "dispatch.batching:transforming",
            "_disabled_torch_function_impl": (
                "base.torch_function:disabled_torch_function_impl"
            ),
            "_get_tracing_state": "torchscript:get_tracing_state",
            "_log_api_usage_once": "runtime:log_api_usage_once",
        },
    ),
    "_utils": (("nn.utils.flat_tensors",), {}),
    "_dynamo": (("compiler",), {}),
    "_inductor": (("compiler",), {}),
    **{
        f"distributions.{name}": (("distributions", f"distributions.{source}"), {})
        for source, names in _DISTRIBUTIONS.items()
        for name in names.split()
    },
    "distributions.utils": (
        ("distributions.distribution", "distributions.triangles"),
        {
            "_standard_normal": "distributions.distribution:standard_normal",
            "_sum_rightmost": "distributions.distribution:sum_rightmost",
        },
    ),
}  # fmt: skip
"""By address: the modules whose names it has, and names with another place."""

_ONE_PROCESS = "one process computes on one device."
_NO_GRAPHS = "`fw.jit` traces and replays, `fw.graph` shows what was traced."
_NO_QUANTIZATION = (
    "`nn.quantize` gives a model's layers weights of few bits, and `ops.int_mm`"
    " multiplies int8."
)

OWN: dict[str, dict[str, str]] = {
    "onnx": {"is_in_onnx_export": "torchscript:is_tracing"},
}
"""By address of what is not here: names that have an answer all the same."""

ABSENT: dict[str, tuple[str, str]] = {
    "onnx": (
        "save weights with `fw.save` as safetensors.",
        "export dynamo_export register_custom_op_symbolic OperatorExportTypes"
        " ONNXProgram",
    ),
    "export": (_NO_GRAPHS, "export Dim ExportedProgram save load draft_export"),
    "package": ("use Python's packages.", "PackageExporter PackageImporter"),
    "masked": (
        "use `where`, `masked_fill`, and masks of the functions themselves.",
        "masked_tensor as_masked_tensor MaskedTensor is_masked_tensor",
    ),
    "quasirandom": ("draw with `fw.rand`.", "SobolEngine"),
    "quantization": (
        _NO_QUANTIZATION,
        "QuantStub DeQuantStub QConfig prepare prepare_qat convert fuse_modules"
        " get_default_qconfig get_default_qat_qconfig quantize_dynamic",
    ),
    "ao": (_NO_QUANTIZATION, ""),
    "ao.quantization": (
        _NO_QUANTIZATION,
        "QuantStub DeQuantStub QConfig prepare prepare_qat convert fuse_modules"
        " get_default_qconfig get_default_qat_qconfig quantize_dynamic",
    ),
    "nn.quantized": (_NO_QUANTIZATION, "Linear Conv2d FloatFunctional"),
    "nn.parallel.scatter_gather": (
        _ONE_PROCESS,
        "scatter gather scatter_kwargs",
    ),
    "nn.parallel._functions": (_ONE_PROCESS, "Scatter Gather Broadcast"),
    "cuda.comm": (_CUDA, "broadcast broadcast_coalesced reduce_add scatter gather"),
    "cuda.nccl": (_CUDA, "version is_available"),
    "distributed.tensor": (
        "`nn.fully_shard` divides parameters among processes, `nn.tensor_parallel`"
        " layers; no tensor is divided by itself.",
        "DTensor distribute_tensor distribute_module",
    ),
    "distributed.tensor.parallel": (
        "`nn.tensor_parallel(model, group)` divides the layers of a model.",
        "parallelize_module loss_parallel",
    ),
    "distributed.pipelining": (
        "`nn.Pipeline(layers, micro_batches, group, loss=...)` gives each process some"
        " of the layers.",
        "PipelineStage SplitPoint pipeline pipe_split build_stage ScheduleGPipe"
        " Schedule1F1B ScheduleInterleaved1F1B ScheduleLoopedBFS"
        " ScheduleInterleavedZeroBubble ScheduleZBVZeroBubble ScheduleDualPipeV",
    ),
    "distributed.algorithms.ddp_comm_hooks": (
        "`DistributedDataParallel.register_comm_hook` takes a hook.",
        "register_ddp_comm_hook",
    ),
    "distributed.optim": (
        "`nn.FSDP` divides the moments of an optimizer with the parameters.",
        "ZeroRedundancyOptimizer DistributedOptimizer",
    ),
    "distributed.algorithms.join": (
        "`DistributedDataParallel.join` lets processes have fewer batches than others.",
        "Join Joinable JoinHook",
    ),
    "distributed.rpc": (
        "processes send tensors and objects to each other: `distributed.send`,"
        " `distributed.recv`, `distributed.scatter_object_list`.",
        "init_rpc rpc_sync rpc_async remote shutdown",
    ),
    "utils.cpp_extension": (
        "there is no compiled extension; kernels are GLSL, see `vkbackend`.",
        "load load_inline BuildExtension CppExtension CUDAExtension",
    ),
    "utils._python_dispatch": (
        "functions take tensors, and no mode sees their calls.",
        "TorchDispatchMode",
    ),
    "utils.mobile_optimizer": ("there is one library.", "optimize_for_mobile"),
    "utils.collect_env": (
        "`vkdoctor` says what there is of Vulkan on a machine.",
        "get_pretty_env_info collect_env main",
    ),
}
"""By address: what to do instead, and the names that raise when they are called."""
