-- Figures that the card cannot give, or that go against the source's own series.
with lineage as (
    -- a card that is stated as a family may be any of its kinds, and of theirs, and of theirs
    select gpu_id, gpu_id as family from gpus
    union all
    select gpu_id, family_id as family from gpus
    union all
    select k.gpu_id, f.family_id as family
    from gpus as k
    inner join gpus as f on k.family_id = f.gpu_id
    union all
    select k.gpu_id, g.family_id as family
    from gpus as k
    inner join gpus as f on k.family_id = f.gpu_id
    inner join gpus as g on f.family_id = g.gpu_id
),
cards as (
    -- of the kinds of a family the largest counts
    select
        l.family as gpu_id,
        max(k.memory_bytes) as memory_bytes,
        max(greatest(
            k.peak_flops_fp32, k.peak_flops_tf32, k.peak_flops_fp16, k.peak_flops_bf16,
            k.peak_flops_fp8, k.peak_ops_int8
        )) as peak_flops
    from lineage as l
    inner join gpus as k on l.gpu_id = k.gpu_id
    where l.family is not null
    group by l.family
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
        / nullif(u.forward_flops_per_token + u.backward_flops_per_token, 0) as most
    from utilization as u
    inner join limited as l on u.observation_id = l.observation_id
    union all
    select
        l.observation_id,
        m.metric,
        m.value / case m.scope when 'total' then l.n_gpus else 1 end as rate,
        l.peak_flops as most
    from limited as l
    inner join measurements as m on l.observation_id = m.observation_id
    where m.metric = 'flops_per_second'
),
timed as (
    select distinct observation_id
    from measurements
    where metric like '%!_time' escape '!' or metric like '%!_per!_second' escape '!'
),
settings as (
    select
        r.observation_id,
        r.source_id,
        r.memory_kind,
        r.peak_memory_bytes_per_gpu as peak,
        c.seq_len,
        c.micro_batch_size,
        -- All that was chosen, but for what grows along a series and what follows. No text holds
        -- the characters 30 and 31, which stand for what is not stated and between two columns.
        md5(concat_ws(
            chr(31),
            o.environment_id,
            coalesce(c.model_id, chr(30)),
            coalesce(c.weights, chr(30)),
            coalesce(c.objective, chr(30)),
            coalesce(c.method, chr(30)),
            coalesce(c.quant_method, chr(30)),
            coalesce(cast(c.quant_bits as string), chr(30)),
            coalesce(c.quant_type, chr(30)),
            coalesce(cast(c.double_quant as string), chr(30)),
            coalesce(c.compute_dtype, chr(30)),
            coalesce(c.param_dtype, chr(30)),
            coalesce(cast(c.lora_rank as string), chr(30)),
            coalesce(cast(c.lora_alpha as string), chr(30)),
            coalesce(cast(c.lora_dropout as string), chr(30)),
            coalesce(cast(c.lora_target_modules as string), chr(30)),
            coalesce(cast(c.use_rslora as string), chr(30)),
            coalesce(cast(c.trains_embeddings as string), chr(30)),
            coalesce(cast(c.trainable_params as string), chr(30)),
            coalesce(c.peft_config, chr(30)),
            coalesce(c.gpu_id, chr(30)),
            coalesce(cast(c.n_nodes as string), chr(30)),
            coalesce(cast(c.gpus_per_node as string), chr(30)),
            coalesce(cast(c.n_gpus as string), chr(30)),
            coalesce(c.interconnect, chr(30)),
            coalesce(c.sharding, chr(30)),
            coalesce(cast(c.tensor_parallel as string), chr(30)),
            coalesce(cast(c.pipeline_parallel as string), chr(30)),
            coalesce(cast(c.context_parallel as string), chr(30)),
            coalesce(cast(c.expert_parallel as string), chr(30)),
            coalesce(c.offload, chr(30)),
            coalesce(cast(c.memory_limit_bytes as string), chr(30)),
            coalesce(c.length_distribution, chr(30)),
            coalesce(cast(c.grad_accum_steps as string), chr(30)),
            coalesce(c.attention, chr(30)),
            coalesce(cast(c.gradient_checkpointing as string), chr(30)),
            coalesce(c.optimizer, chr(30)),
            coalesce(cast(c.packing as string), chr(30)),
            coalesce(cast(c.padding_free as string), chr(30)),
            coalesce(cast(c.torch_compile as string), chr(30)),
            coalesce(cast(c.kernels as string), chr(30)),
            coalesce(c.dataset, chr(30)),
            coalesce(c.data, chr(30))
        )) as setting
    from results as r
    inner join observations as o on r.observation_id = o.observation_id
    inner join configurations as c on o.configuration_id = c.configuration_id
    where
        r.outcome = 'ok' and r.evidence = 'measured' and r.peak_memory_bytes_per_gpu is not null
),
keyed as (
    -- peak and run in one text that sorts as the peak does: of equal peaks every engine takes the
    -- same run
    select
        *,
        lpad(cast(peak as string), 20, '0') || observation_id as peak_and_id
    from settings
),
largest as (
    select
        *,
        max(peak_and_id) over (
            partition by source_id, memory_kind, setting, micro_batch_size
            order by seq_len nulls last range between unbounded preceding and 1 preceding
        ) as shorter,
        max(peak_and_id) over (
            partition by source_id, memory_kind, setting, seq_len
            order by micro_batch_size nulls last range between unbounded preceding and 1 preceding
        ) as smaller
    from keyed
),
series as (
    select
        *,
        cast(left(shorter, 20) as bigint) as shorter_peak,
        substr(shorter, 21) as shorter_id,
        cast(left(smaller, 20) as bigint) as smaller_peak,
        substr(smaller, 21) as smaller_id
    from largest
)
select
    'peak above the memory of the card' as kind,
    observation_id,
    cast(null as string) as other_observation_id,
    'peak_memory' as metric,
    cast(peak_memory_bytes_per_gpu as double) as value,
    cast(memory_bytes as double) as other_value
from limited
where peak_memory_bytes_per_gpu > memory_bytes
union all
select
    'peak at the memory of the card, and no speed' as kind,
    observation_id,
    cast(null as string) as other_observation_id,
    'peak_memory' as metric,
    cast(peak_memory_bytes_per_gpu as double) as value,
    cast(memory_bytes as double) as other_value
from limited
where
    peak_memory_bytes_per_gpu between 0.98 * memory_bytes and memory_bytes
    and outcome = 'ok' and evidence = 'measured'
    and not exists (select 1 from timed as t where t.observation_id = limited.observation_id)
union all
select
    'operations above the peak of the card' as kind,
    observation_id,
    cast(null as string) as other_observation_id,
    metric,
    rate as value,
    most as other_value
from rates
where rate > most
union all
select
    'less memory at a longer sequence' as kind,
    observation_id,
    shorter_id as other_observation_id,
    'peak_memory' as metric,
    cast(peak as double) as value,
    cast(shorter_peak as double) as other_value
from series
where seq_len is not null and peak < 0.95 * shorter_peak
union all
select
    'less memory at a larger batch' as kind,
    observation_id,
    smaller_id as other_observation_id,
    'peak_memory' as metric,
    cast(peak as double) as value,
    cast(smaller_peak as double) as other_value
from series
where micro_batch_size is not null and peak < 0.95 * smaller_peak
