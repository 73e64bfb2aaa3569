-- Observations of a source that another source reports too: one setting, and an equal figure. Without
-- a source, of all sources, each pair once.
select
    m.source_id as of_source_id,
    o.source_id,
    count(distinct m.observation_id) as n,
    min(m.observation_id) as mine,
    arg_min(o.observation_id, m.observation_id || o.observation_id) as other
from results as m
inner join results as o
    on
        m.source_id <> o.source_id
        and m.model_id is not distinct from o.model_id
        and m.gpu_id is not distinct from o.gpu_id
        and m.n_gpus is not distinct from o.n_gpus
        and m.method is not distinct from o.method
        and m.seq_len is not distinct from o.seq_len
        and m.micro_batch_size is not distinct from o.micro_batch_size
        and (
            m.peak_memory_bytes = o.peak_memory_bytes
            or m.seconds_per_step = o.seconds_per_step
            or m.samples_per_second = o.samples_per_second
        )
where
    m.source_id = $source_id
    or ($source_id is null and m.source_id < o.source_id)
group by m.source_id, o.source_id
order by m.source_id, o.source_id
