-- One line for each accelerator of the catalogue: what it is, and what the records hold of it.
with held as (
    select *
    from results
    where ($model is null or model_id = $model)
        and ($source is null or source_id = $source)
        and ($method is null or method = $method or lower(method_label) = lower($method))
),
counted as (
    select
        gpu_id,
        count(*) as n,
        count(*) filter (outcome = 'oom') as n_oom,
        count(distinct source_id) as n_sources
    from held
    group by gpu_id
),
trained as (
    select
        gpu_id,
        string_agg(model_id, ', ' order by n desc, model_id) as model_ids
    from (select gpu_id, model_id, count(*) as n from held where model_id is not null group by all)
    group by gpu_id
),
methods as (
    select
        gpu_id,
        string_agg(method_label, ', ' order by n desc, method_label) as labels
    from (
        select gpu_id, method_label, count(*) as n
        from held
        where method_label is not null
        group by all
    )
    group by gpu_id
)
select
    g.gpu_id,
    g.vendor,
    g.architecture,
    g.released,
    g.memory_bytes / 1073741824 as memory_gib,
    coalesce(c.n, 0) as n,
    coalesce(c.n_oom, 0) as n_oom,
    coalesce(c.n_sources, 0) as n_sources,
    trained.model_ids,
    methods.labels as methods,
    g.name
from gpus as g
left join counted as c using (gpu_id)
left join trained using (gpu_id)
left join methods using (gpu_id)
where ($vendor is null or g.vendor = $vendor)
    and ($memory is null or g.memory_bytes >= $memory)
    and (not $recorded or c.n > 0)
order by g.vendor, g.memory_bytes nulls first, g.gpu_id
