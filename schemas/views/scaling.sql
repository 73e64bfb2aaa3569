-- Throughput over the number of GPUs, against the smallest number of the same setting.
with settings as (
    select
        source_id,
        model_id,
        method_label,
        quant_bits,
        gpu_id,
        sharding,
        offload,
        seq_len,
        micro_batch_size,
        grad_accum_steps,
        n_gpus,
        interconnect,
        median(samples_per_second) as samples_per_second,
        max(peak_memory_bytes_per_gpu) as peak_memory_bytes_per_gpu,
        count(*) as n_observations
    from results
    where outcome = 'ok' and n_gpus is not null and samples_per_second is not null
    group by all
),
compared as (
    select
        *,
        min(n_gpus) over setting as base_n_gpus,
        first(samples_per_second) over (setting order by n_gpus) as base_samples_per_second,
        count(*) over setting as n_sizes
    from settings
    window setting as (
        partition by
            source_id, model_id, method_label, quant_bits, gpu_id, offload, seq_len,
            micro_batch_size, grad_accum_steps
    )
)
select
    * exclude (n_sizes),
    samples_per_second / base_samples_per_second as speedup,
    samples_per_second / base_samples_per_second / (n_gpus / base_n_gpus) as efficiency
from compared
where n_sizes > 1
