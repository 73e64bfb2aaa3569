-- For each observation that goes out, the measured one of others that a reviewer holds it beside: of
-- the same method, on CPU or on cards as it is; nearest in size, length, batch, bits and card.
with candidates as (
    select
        r.*,
        coalesce(r.gpu_id = 'cpu', false) as on_cpu,
        list_contains(string_split($ids, ','), r.observation_id) as is_ours
    from results as r
    where r.outcome in ('ok', 'oom') and r.evidence = 'measured'
),
pairs as (
    select
        ours.observation_id as of_observation_id,
        other.*,
        abs(coalesce(log2(ours.n_params / other.n_params), 4))
        + abs(coalesce(log2(ours.seq_len / other.seq_len), 4))
        + abs(coalesce(log2(ours.micro_batch_size / other.micro_batch_size), 4))
        + abs(coalesce(log2(ours.n_gpus / other.n_gpus), 4))
        + if(ours.quant_bits is distinct from other.quant_bits, 2, 0)
        + if(ours.gpu_id is distinct from other.gpu_id, 1, 0)
        + if(ours.model_id is distinct from other.model_id, 0.5, 0) as distance
    from candidates as ours
    inner join candidates as other on ours.method = other.method and ours.on_cpu = other.on_cpu
    where
        ours.is_ours
        and not list_contains(string_split($own, ','), other.observation_id)
)
select
    observation_id,
    of_observation_id,
    source_id,
    model_id,
    gpu_id,
    quant_bits,
    seq_len,
    micro_batch_size,
    n_gpus,
    peak_memory_bytes,
    seconds_per_step
from pairs
qualify row_number() over (partition by of_observation_id order by distance, observation_id) = 1
