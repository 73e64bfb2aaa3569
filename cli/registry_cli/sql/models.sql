-- One line for each model of the catalogue: what it is, and what the records hold of it.
with held as (
    select *
    from results
    where ($gpus is null or gpu_id in (select unnest(string_split($gpus, ','))))
        and ($source is null or source_id = $source)
        and ($method is null or method = $method or lower(method_label) = lower($method))
),
counted as (
    select
        model_id,
        count(*) as n,
        count(*) filter (outcome = 'oom') as n_oom,
        count(distinct source_id) as n_sources,
        max(seq_len) filter (outcome = 'ok') as longest
    from held
    group by model_id
),
cards as (
    select
        model_id,
        string_agg(gpu_id, ', ' order by n desc, gpu_id) as gpu_ids
    from (select model_id, gpu_id, count(*) as n from held where gpu_id is not null group by all)
    group by model_id
),
methods as (
    select
        model_id,
        string_agg(method_label, ', ' order by n desc, method_label) as labels
    from (
        select model_id, method_label, count(*) as n
        from held
        where method_label is not null
        group by all
    )
    group by model_id
)
select
    m.model_id,
    m.family,
    m.n_params,
    m.n_layers,
    coalesce(c.n, 0) as n,
    coalesce(c.n_oom, 0) as n_oom,
    coalesce(c.n_sources, 0) as n_sources,
    c.longest as longest_fitted,
    cards.gpu_ids,
    methods.labels as methods,
    m.hf_id
from models as m
left join counted as c using (model_id)
left join cards using (model_id)
left join methods using (model_id)
where ($family is null or m.family = $family) and (not $recorded or c.n > 0)
order by m.family, m.n_params, m.model_id
