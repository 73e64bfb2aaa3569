-- Figures that the card cannot give, or that go against the source's own series.
with recursive kinds as (
    -- a card that is stated as a family may be any of its kinds: the largest counts
    select
        gpu_id as family,
        *
    from gpus
    union all
    select
        f.family_id as family,
        k.* exclude (family)
    from kinds as k
    inner join gpus as f on k.family = f.gpu_id
    where f.family_id is not null
),
cards as (
    select
        family as gpu_id,
        max(memory_bytes) as memory_bytes,
        max(greatest(
            peak_flops_fp32, peak_flops_tf32, peak_flops_fp16, peak_flops_bf16, peak_flops_fp8,
            peak_ops_int8
        )) as peak_flops
    from kinds
    group by family
),
limited as (
    select
        r.*,
        k.memory_bytes,
        k.peak_flops
    from results as r
    inner join cards as k on r.gpu_id = k.gpu_id
    where r.memory_kind is distinct from 'host_rss'
),
rates as (
    select
        u.observation_id,
        'tokens_per_second' as metric,
        u.tokens_per_second_per_gpu as rate,
        -- a number format that is not stated may be the fastest one
        case when u.compute_dtype is null then l.peak_flops else u.peak_flops_per_second end
        / (u.forward_flops_per_token + u.backward_flops_per_token) as most
    from utilization as u
    inner join limited as l using (observation_id)
    union all by name
    select
        l.observation_id,
        m.metric,
        m.value / case m.scope when 'total' then l.n_gpus else 1 end as rate,
        l.peak_flops as most
    from limited as l
    inner join measurements as m using (observation_id)
    where m.metric = 'flops_per_second'
),
settings as (
    select
        r.observation_id,
        r.source_id,
        r.memory_kind,
        r.peak_memory_bytes_per_gpu as peak,
        c.seq_len,
        c.micro_batch_size,
        -- all that was chosen and stated, but for what grows along a series and what follows
        md5(row(
            o.environment_id,
            *columns(c.* exclude (
                configuration_id, seq_len, micro_batch_size, global_batch_size, n_samples, n_epochs,
                n_steps
            ))
        )::varchar) as setting
    from results as r
    inner join observations as o using (observation_id)
    inner join configurations as c using (configuration_id)
    where r.outcome = 'ok' and r.evidence = 'measured' and peak is not null
),
series as (
    select
        *,
        max(peak) over longer as shorter_peak,
        arg_max(observation_id, peak) over longer as shorter_id,
        max(peak) over larger as smaller_peak,
        arg_max(observation_id, peak) over larger as smaller_id
    from settings
    window
        longer as (
            partition by source_id, memory_kind, setting, micro_batch_size
            order by seq_len range between unbounded preceding and 1 preceding
        ),
        larger as (
            partition by source_id, memory_kind, setting, seq_len
            order by micro_batch_size range between unbounded preceding and 1 preceding
        )
)
select
    'peak above the memory of the card' as kind,
    observation_id,
    null::varchar as other_observation_id,
    'peak_memory' as metric,
    peak_memory_bytes_per_gpu::double as value,
    memory_bytes::double as other_value
from limited
where peak_memory_bytes_per_gpu > memory_bytes
union all by name
select
    'peak at the memory of the card, and no speed' as kind,
    observation_id,
    'peak_memory' as metric,
    peak_memory_bytes_per_gpu::double as value,
    memory_bytes::double as other_value
from limited
where
    peak_memory_bytes_per_gpu between 0.98 * memory_bytes and memory_bytes
    and outcome = 'ok' and evidence = 'measured'
    and observation_id not in (
        select observation_id
        from measurements
        where metric like '%\_time' escape '\' or metric like '%\_per\_second' escape '\'
    )
union all by name
select
    'operations above the peak of the card' as kind,
    observation_id,
    metric,
    rate as value,
    most as other_value
from rates
where rate > most
union all by name
select
    'less memory at a longer sequence' as kind,
    observation_id,
    shorter_id as other_observation_id,
    'peak_memory' as metric,
    peak::double as value,
    shorter_peak::double as other_value
from series
where seq_len is not null and peak < 0.95 * shorter_peak
union all by name
select
    'less memory at a larger batch' as kind,
    observation_id,
    smaller_id as other_observation_id,
    'peak_memory' as metric,
    peak::double as value,
    smaller_peak::double as other_value
from series
where micro_batch_size is not null and peak < 0.95 * smaller_peak
