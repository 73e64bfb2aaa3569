-- One row per observation, with the figures most questions are about.
with memory as (
    select
        observation_id,
        kind,
        -- Of two totals that of statistic max counts (it sorts before value), with its own bounds.
        min_by(value, statistic) filter (where scope = 'total') as total,
        min_by(coalesce(low, value), statistic) filter (where scope = 'total') as total_low,
        min_by(coalesce(high, value), statistic) filter (where scope = 'total') as total_high,
        max(value) filter (where scope in ('per_gpu', 'max_gpu')) as fullest,
        min_by(value, statistic) filter (where scope = 'mean_gpu') as mean,
        coalesce(
            min_by(unit_reported, statistic)
                filter (where scope = 'total' and unit_reported is not null),
            max_by(unit_reported, value)
                filter (where scope in ('per_gpu', 'max_gpu') and unit_reported is not null),
            min_by(unit_reported, statistic) filter (where unit_reported is not null)
        ) as unit_reported
    from measurements
    where metric = 'peak_memory' and statistic in ('max', 'value')
    group by observation_id, kind
),
peak as (
    select *
    from (
        select
            *,
            row_number() over (
                partition by observation_id
                order by
                    case kind
                        when 'device' then 1 when 'reserved' then 2 when 'active' then 3
                        when 'allocated' then 4 when 'unknown' then 5 when 'host_rss' then 6
                        else 7
                    end
            ) as place
        from memory
    ) as placed
    where place = 1
),
-- A reported figure counts before a derived one, then the statistic of a typical sample. Others
-- (max, last, …) have no place, and min_by leaves out what has none.
typical as (
    select
        observation_id,
        metric,
        statistic,
        value,
        case origin || ' ' || statistic
            when 'reported median' then 1
            when 'reported value' then 2
            when 'reported mean' then 3
            when 'derived median' then 4
            when 'derived value' then 5
            when 'derived mean' then 6
        end as place
    from measurements
    where scope = 'total'
),
figures as (
    select
        observation_id,
        min_by(value, place) filter (where metric = 'step_time') as seconds_per_step,
        min_by(value, place) filter (where metric = 'total_time') as total_seconds,
        min_by(value, place) filter (where metric = 'samples_per_second') as samples_per_second,
        min_by(value, place) filter (where metric = 'tokens_per_second') as tokens_per_second,
        min_by(value, place) filter (where metric = 'trainable_params') as trainable_params,
        cast(max(value) filter (
            where metric = 'sequence_length' and statistic = 'max' and value >= 1
        ) as bigint) as longest
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
        when c.method = 'lora' and c.quant_type = 'fp8' then 'LoRA (fp8)'
        when c.method = 'lora' and c.quant_bits is not null
            then 'LoRA (int' || cast(c.quant_bits as string) || ')'
        when c.method = 'lora' then 'LoRA'
        when c.method = 'dora' and c.quant_bits is not null then 'QDoRA'
        when c.method = 'dora' then 'DoRA'
        when c.quant_type = 'fp8' then c.method || ' (fp8)'
        when c.quant_bits is not null
            then c.method || ' (int' || cast(c.quant_bits as string) || ')'
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
    coalesce(c.trainable_params, cast(round(f.trainable_params) as bigint)) as trainable_params,
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
    cast(round(p.total) as bigint) as peak_memory_bytes,
    cast(round(p.total_low) as bigint) as peak_memory_bytes_low,
    cast(round(p.total_high) as bigint) as peak_memory_bytes_high,
    cast(round(coalesce(p.fullest, p.mean, p.total / c.n_gpus)) as bigint)
        as peak_memory_bytes_per_gpu,
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
    o.flags,
    -- packed samples fill their sequences, however short they are
    case
        when c.packing is distinct from true and coalesce(f.longest < c.seq_len, true) then f.longest
    end as longest_sequence
from observations as o
inner join configurations as c on o.configuration_id = c.configuration_id
inner join environments as e on o.environment_id = e.environment_id
left join models as m on c.model_id = m.model_id
left join gpus as g on c.gpu_id = g.gpu_id
left join peak as p on o.observation_id = p.observation_id
left join figures as f on o.observation_id = f.observation_id
left join cited as n on o.observation_id = n.observation_id
where not exists (select 1 from retractions as x where x.observation_id = o.observation_id)
