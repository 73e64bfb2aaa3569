-- Throughput over the number of GPUs, against the smallest number of the same setting.
with settings as (
    select
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
    from finetuning
    where outcome = 'ok' and n_gpus is not null and samples_per_second is not null
    group by
        source_id, model_id, objective, method_label, quant_bits, compute_dtype, gpu_id, sharding,
        offload, seq_len, micro_batch_size, grad_accum_steps, gradient_checkpointing, attention,
        lora_rank, n_gpus, interconnect
),
compared as (
    select
        *,
        min(n_gpus) over (
            partition by
                source_id, model_id, objective, method_label, quant_bits, compute_dtype, gpu_id,
                offload, seq_len, micro_batch_size, grad_accum_steps, gradient_checkpointing,
                attention, lora_rank
        ) as base_n_gpus,
        -- of several rows of the smallest number (shardings, links) the fastest is the base
        first_value(samples_per_second) over (
            partition by
                source_id, model_id, objective, method_label, quant_bits, compute_dtype, gpu_id,
                offload, seq_len, micro_batch_size, grad_accum_steps, gradient_checkpointing,
                attention, lora_rank
            order by n_gpus, samples_per_second desc
        ) as base_samples_per_second,
        max(n_gpus) over (
            partition by
                source_id, model_id, objective, method_label, quant_bits, compute_dtype, gpu_id,
                offload, seq_len, micro_batch_size, grad_accum_steps, gradient_checkpointing,
                attention, lora_rank
        ) as most_n_gpus
    from settings
)
select
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
