-- What the chosen observations hold of each thing of the catalogue: $by says of models or of gpus.
with held as (
    select
        *,
        if($by = 'model', model_id, gpu_id) as thing,
        if($by = 'model', gpu_id, model_id) as other
    from results
    /* filters */
),
counted as (
    select
        thing,
        count(*) as n,
        count(*) filter (outcome = 'oom') as n_oom,
        count(distinct source_id) as n_sources,
        max(coalesce(longest_sequence, seq_len)) filter (outcome = 'ok') as longest
    from held
    group by thing
),
listed as (
    select
        thing,
        string_agg(word, ', ' order by n desc, word) filter (what = 'other') as others,
        string_agg(word, ', ' order by n desc, word) filter (what = 'method') as methods
    from (
        select thing, what, word, count(*) as n
        from (
            select thing, 'other' as what, other as word from held
            union all
            select thing, 'method' as what, method_label as word from held
        )
        where word is not null
        group by all
    )
    group by thing
)
