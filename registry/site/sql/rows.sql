-- One row per observation with what the pages filter, draw and list, under the names of `results`.
with runs as (
    select
        r.*,
        m.family,
        o.configuration_id,
        s.published_on,
        coalesce(
            r.framework || ' ' || r.framework_version,
            'torch ' || r.torch_version,
            r.source_id
        ) as release
    from results as r
    inner join observations as o using (observation_id)
    left join models as m on r.model_id = m.model_id
    left join sources as s on r.source_id = s.source_id
),
-- Runs of one configuration with one framework, where there are several releases of it.
series as (
    select
        configuration_id,
        framework,
        row_number() over (order by configuration_id, framework) as series
    from runs
    where outcome = 'ok'
    group by configuration_id, framework
    having count(distinct release) > 1
)
select
    left(r.observation_id, $digits) as observation_id,
    r.source_id,
    r.outcome,
    r.evidence,
    r.model_id,
    r.family,
    r.n_params,
    r.method_label,
    r.quant_bits,
    r.quant_type,
    r.compute_dtype,
    r.lora_rank,
    r.objective,
    r.gpu_id,
    r.gpu_memory_bytes,
    r.n_gpus,
    r.n_nodes,
    r.sharding,
    r.offload,
    r.seq_len,
    r.micro_batch_size,
    r.grad_accum_steps,
    r.global_batch_size,
    r.gradient_checkpointing,
    r.attention,
    r.optimizer,
    r.memory_kind,
    r.peak_memory_bytes_per_gpu,
    r.peak_memory_bytes,
    r.peak_memory_bytes_low,
    r.peak_memory_bytes_high,
    r.seconds_per_step,
    r.samples_per_second,
    r.tokens_per_second,
    r.framework,
    r.framework_version,
    r.torch_version,
    r.release,
    coalesce(strftime(r.observed_at, '%Y-%m-%d'), r.published_on) as date,
    x.series::integer as series
from runs as r
left join series as x
    on r.configuration_id = x.configuration_id and r.framework is not distinct from x.framework
order by
    r.source_id, r.model_id, r.method_label, r.gpu_id, r.seq_len, r.micro_batch_size,
    r.observation_id
