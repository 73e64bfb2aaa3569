-- The observations that go out, as a reviewer compares them.
select
    observation_id,
    source_id,
    model_id,
    gpu_id,
    n_gpus,
    method,
    quant_bits,
    seq_len,
    micro_batch_size,
    outcome,
    evidence,
    flags,
    peak_memory_bytes,
    seconds_per_step
from results
where list_contains(string_split($ids, ','), observation_id)
order by model_id, gpu_id, method, quant_bits, seq_len, micro_batch_size, observation_id
