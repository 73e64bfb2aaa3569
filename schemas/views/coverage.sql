-- What has been observed, of pretraining and made-up data too: per model, GPU and method.
select
    model_id,
    gpu_id,
    method_label,
    count(*) as n_observations,
    count(*) filter (where outcome = 'ok') as n_ok,
    count(*) filter (where outcome = 'oom') as n_oom,
    count(memory_kind) as n_with_memory,
    count(coalesce(samples_per_second, tokens_per_second)) as n_with_speed,
    min(seq_len) as min_seq_len,
    max(seq_len) as max_seq_len,
    min(n_gpus) as min_n_gpus,
    max(n_gpus) as max_n_gpus,
    count(distinct source_id) as n_sources
from results
group by model_id, gpu_id, method_label
