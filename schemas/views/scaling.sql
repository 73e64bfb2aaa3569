-- Throughput over the number of GPUs, against the smallest number of the same setting.
with runs as (
    select
        r.*,
        -- all that was stated but how many devices there are, and how they are linked and shared
        min(r.observation_id) over (
            partition by
                r.source_id, o.environment_id, c.model_id, c.weights, c.objective, c.method,
                c.quant_method, c.quant_bits, c.quant_type, c.double_quant, c.compute_dtype,
                c.param_dtype, c.lora_rank, c.lora_alpha, c.lora_dropout, c.lora_target_modules,
                c.use_rslora, c.trains_embeddings, c.peft_config, c.gpu_id, c.tensor_parallel,
                c.pipeline_parallel, c.context_parallel, c.expert_parallel, c.offload,
                c.memory_limit_bytes, c.seq_len, c.length_distribution, c.micro_batch_size,
                c.grad_accum_steps, c.attention, c.gradient_checkpointing, c.optimizer, c.packing,
                c.padding_free, c.torch_compile, c.kernels, c.dataset, c.data, c.n_samples, c.n_epochs
        ) as setting
    from finetuning as r
    inner join observations as o on r.observation_id = o.observation_id
    inner join configurations as c on o.configuration_id = c.configuration_id
    where r.outcome = 'ok' and r.n_gpus is not null and r.samples_per_second is not null
        and not coalesce(array_contains(r.flags, 'suspect'), false)
),
settings as (
    select
        setting,
        source_id,
        model_id,
        objective,
        method_label,
        quant_bits,
        compute_dtype,
        gpu_id,
        sharding,
        offload,
        seq_len,
        micro_batch_size,
        grad_accum_steps,
        gradient_checkpointing,
        attention,
        lora_rank,
        n_gpus,
        interconnect,
        median(samples_per_second) as samples_per_second,
        max(peak_memory_bytes_per_gpu) as peak_memory_bytes_per_gpu,
        count(*) as n_observations
    from runs
    group by
        setting, source_id, model_id, objective, method_label, quant_bits, compute_dtype, gpu_id,
        sharding, offload, seq_len, micro_batch_size, grad_accum_steps, gradient_checkpointing,
        attention, lora_rank, n_gpus, interconnect
),
compared as (
    select
        *,
        min(n_gpus) over (partition by setting) as base_n_gpus,
        -- of several rows of the smallest number (shardings, links) the fastest is the base
        first_value(samples_per_second) over (
            partition by setting order by n_gpus, samples_per_second desc
        ) as base_samples_per_second,
        max(n_gpus) over (partition by setting) as most_n_gpus
    from settings
)
select
    setting,
    source_id,
    model_id,
    objective,
    method_label,
    quant_bits,
    compute_dtype,
    gpu_id,
    sharding,
    offload,
    seq_len,
    micro_batch_size,
    grad_accum_steps,
    gradient_checkpointing,
    attention,
    lora_rank,
    n_gpus,
    interconnect,
    samples_per_second,
    peak_memory_bytes_per_gpu,
    n_observations,
    base_n_gpus,
    base_samples_per_second,
    samples_per_second / nullif(base_samples_per_second, 0) as speedup,
    samples_per_second / nullif(base_samples_per_second, 0) / (n_gpus / base_n_gpus) as efficiency
from compared
where most_n_gpus > base_n_gpus
