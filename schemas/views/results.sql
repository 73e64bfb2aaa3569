-- One row per observation, with the figures most questions are about.
with memory as (
    select
        observation_id,
        kind,
        -- Of two totals that of statistic max counts (it sorts before value), with its own bounds.
        arg_min(value, statistic) filter (scope = 'total') as total,
        arg_min(coalesce(low, value), statistic) filter (scope = 'total') as total_low,
        arg_min(coalesce(high, value), statistic) filter (scope = 'total') as total_high,
        max(value) filter (scope in ('per_gpu', 'max_gpu')) as fullest,
        arg_min(value, statistic) filter (scope = 'mean_gpu') as mean,
        coalesce(
            arg_min(unit_reported, statistic) filter (scope = 'total'),
            arg_max(unit_reported, value) filter (scope in ('per_gpu', 'max_gpu')),
            arg_min(unit_reported, statistic)
        ) as unit_reported
    from measurements
    where metric = 'peak_memory' and statistic in ('max', 'value')
    group by all
),
peak as (
    select *
    from memory
    qualify row_number() over (
        partition by observation_id
        order by
            list_position(
                ['device', 'reserved', 'active', 'allocated', 'unknown', 'host_rss'], kind
            )
    ) = 1
),
-- A reported figure counts before a derived one, then the statistic of a typical sample. Others
-- (max, last, …) have no place, and arg_min leaves out what has none.
typical as (
    select
        observation_id,
        metric,
        value,
        list_position(
            [
                'reported median', 'reported value', 'reported mean',
                'derived median', 'derived value', 'derived mean'
            ],
            origin || ' ' || statistic
        ) as place
    from measurements
    where scope = 'total'
),
figures as (
    select
        observation_id,
        arg_min(value, place) filter (metric = 'step_time') as seconds_per_step,
        arg_min(value, place) filter (metric = 'total_time') as total_seconds,
        arg_min(value, place) filter (metric = 'samples_per_second') as samples_per_second,
        arg_min(value, place) filter (metric = 'tokens_per_second') as tokens_per_second,
        arg_min(value, place) filter (metric = 'trainable_params') as trainable_params
    from typical
    group by observation_id
),
cited as (
    select observation_id, count(*) as n_citations
    from citations
    group by observation_id
)
select
    o.observation_id,
    o.source_id,
    o.outcome,
    o.evidence,
    c.model_id,
    o.model_reported,
    m.n_params,
    c.method,
    case
        when c.method = 'lora' and c.quant_bits = 4 then 'QLoRA'
        when c.method = 'lora' and c.quant_bits is not null
            then format('LoRA (int{})', c.quant_bits)
        when c.method = 'lora' then 'LoRA'
        when c.method = 'dora' and c.quant_bits is not null then 'QDoRA'
        when c.method = 'dora' then 'DoRA'
        when c.quant_bits is not null then format('{} (int{})', c.method, c.quant_bits)
        else c.method
    end || case when c.trains_embeddings and c.method <> 'full' then ' (emb)' else '' end
        as method_label,
    c.quant_method,
    c.quant_bits,
    c.quant_type,
    c.compute_dtype,
    c.lora_rank,
    c.lora_alpha,
    c.lora_target_modules,
    c.trains_embeddings,
    coalesce(c.trainable_params, f.trainable_params::bigint) as trainable_params,
    c.gpu_id,
    least(g.memory_bytes, c.memory_limit_bytes) as gpu_memory_bytes,
    c.n_nodes,
    c.gpus_per_node,
    c.n_gpus,
    c.interconnect,
    c.sharding,
    c.offload,
    c.seq_len,
    c.micro_batch_size,
    c.grad_accum_steps,
    c.global_batch_size,
    c.attention,
    c.gradient_checkpointing,
    c.optimizer,
    c.n_samples,
    p.total::bigint as peak_memory_bytes,
    p.total_low::bigint as peak_memory_bytes_low,
    p.total_high::bigint as peak_memory_bytes_high,
    coalesce(p.fullest, p.mean, p.total / c.n_gpus)::bigint as peak_memory_bytes_per_gpu,
    p.kind as memory_kind,
    p.unit_reported as memory_unit_reported,
    f.seconds_per_step,
    f.total_seconds,
    f.samples_per_second,
    f.tokens_per_second,
    e.framework,
    e.framework_version,
    e.torch_version,
    e.cuda_version,
    o.observed_at,
    coalesce(n.n_citations, 0) as n_citations,
    c.objective,
    c.data,
    o.flags
from observations as o
inner join configurations as c using (configuration_id)
inner join environments as e using (environment_id)
left join models as m using (model_id)
left join gpus as g using (gpu_id)
left join peak as p using (observation_id)
left join figures as f using (observation_id)
left join cited as n using (observation_id)
where observation_id not in (select observation_id from retractions)
