-- One line for each source: how much it holds, of what, under which licence, and where it is.
with chosen as (
    select *
    from results
    /* filters */
),
words as (
    select
        source_id,
        'card' as what,
        gpu_id as word
    from chosen
    union all
    select
        source_id,
        'method' as what,
        method_label as word
    from chosen
    union all
    select
        r.source_id,
        'metric' as what,
        m.metric as word
    from chosen as r
    inner join measurements as m using (observation_id)
    where m.origin = 'reported'
),
ranked as (
    select
        *,
        row_number() over (partition by source_id, what order by n desc, word) as place
    from (select *, count(*) as n from words where word is not null group by all)
),
listed as (
    select
        source_id,
        what,
        string_agg(word, ', ' order by place) filter (place <= 4)
        || case when count(*) > 4 then format(' and {} more', count(*) - 4) else '' end as words
    from ranked
    group by all
),
counted as (
    select
        source_id,
        count(*) as n,
        count(*) filter (outcome = 'oom') as n_oom,
        count(memory_kind) as n_peak
    from chosen
    group by source_id
)
select
    s.source_id,
    c.n,
    c.n_oom,
    c.n_peak,
    max(l.words) filter (l.what = 'card') as cards,
    max(l.words) filter (l.what = 'method') as methods,
    max(l.words) filter (l.what = 'metric') as metrics,
    s.licence,
    s.url,
    s.title
from sources as s
inner join counted as c using (source_id)
left join listed as l using (source_id)
group by all
order by s.source_id
