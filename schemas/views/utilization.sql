-- Model FLOP/s utilization per observation: what training needs over the card's dense peak.
-- Operations per token as in registry/predict/formula/flops.py, which a test holds this to.
with derived_tokens as (
    select distinct observation_id
    from measurements
    where metric = 'tokens_per_second' and origin = 'derived' and reason like '% all full'
),
shaped as (
    select
        r.observation_id,
        r.source_id,
        r.model_id,
        r.method_label,
        r.compute_dtype,
        r.gpu_id,
        r.n_gpus,
        r.seq_len,
        r.gradient_checkpointing,
        r.method,
        r.trainable_params,
        r.trains_embeddings,
        coalesce(m.n_active_params, m.n_params) as active_params,
        m.n_params,
        m.tied_embeddings,
        -- a product of integers may overflow
        cast(m.n_layers as double) * m.n_heads * m.head_dim as attention_width,
        cast(m.vocab_size as double) * m.hidden_size as embedding,
        least(r.tokens_per_second / nullif(r.samples_per_second, 0), r.seq_len)
            as tokens_per_sample,
        r.tokens_per_second / r.n_gpus as tokens_per_second_per_gpu,
        case
            when r.compute_dtype is null then coalesce(g.peak_flops_bf16, g.peak_flops_fp16)
            when r.compute_dtype = 'fp32' then g.peak_flops_fp32
            when r.compute_dtype = 'tf32' then g.peak_flops_tf32
            when r.compute_dtype = 'fp16' then g.peak_flops_fp16
            when r.compute_dtype = 'bf16' then g.peak_flops_bf16
            when r.compute_dtype = 'fp8' then g.peak_flops_fp8
        end as peak_flops_per_second,
        greatest(
            g.peak_flops_fp32, g.peak_flops_tf32, g.peak_flops_fp16, g.peak_flops_bf16,
            g.peak_flops_fp8, g.peak_ops_int8
        ) as fastest_peak,
        -- tokens that follow from samples of the full length, where no reason says that they are full
        r.data is distinct from 'synthetic' and t.observation_id is not null
        and coalesce(not contains(o.inferences, '"length_distribution":'), true)
            as full_length_assumed
    from results as r
    inner join models as m on r.model_id = m.model_id
    inner join gpus as g on r.gpu_id = g.gpu_id
    inner join observations as o on r.observation_id = o.observation_id
    left join derived_tokens as t on r.observation_id = t.observation_id
    where r.outcome = 'ok' and m.vocab_size is not null and m.intermediate_size is not null
        and coalesce(r.objective not in ('ppo', 'grpo'), true) -- their rates hold generation
),
sized as (
    select
        *,
        active_params - case when tied_embeddings then 0 else embedding end as matrices,
        case
            when method = 'full' then n_params
            when trainable_params is not null then trainable_params
            when trains_embeddings then embedding * case when tied_embeddings then 1 else 2 end
            else 0
        end as trained
    from shaped
),
forward as (
    select
        *,
        2.0 * matrices + 2.0 * attention_width * tokens_per_sample as forward_flops_per_token
    from sized
),
backward as (
    select
        *,
        forward_flops_per_token + 2.0 * attention_width * tokens_per_sample
        + 2.0 * least(trained, matrices) as backward_flops_per_token,
        case
            when gradient_checkpointing then forward_flops_per_token - 2.0 * embedding
            when not gradient_checkpointing then 0
        end as recompute_flops_per_token
    from forward
),
counted as (
    select
        *,
        (forward_flops_per_token + backward_flops_per_token) * tokens_per_second_per_gpu
        / nullif(peak_flops_per_second, 0) as model_flops_utilization
    from backward
)
select
    observation_id,
    source_id,
    model_id,
    method_label,
    compute_dtype,
    gpu_id,
    n_gpus,
    seq_len,
    gradient_checkpointing,
    tokens_per_second_per_gpu,
    forward_flops_per_token,
    backward_flops_per_token,
    recompute_flops_per_token,
    peak_flops_per_second,
    model_flops_utilization,
    (forward_flops_per_token + backward_flops_per_token + recompute_flops_per_token)
    * tokens_per_second_per_gpu / nullif(peak_flops_per_second, 0) as hardware_flops_utilization,
    full_length_assumed,
    compute_dtype is null as dtype_assumed
from counted
where
    model_flops_utilization is not null
    -- more than the 16-bit peak, and no more than a faster one: nobody says in what it was computed
    and (
        compute_dtype is not null
        or model_flops_utilization <= 1
        or model_flops_utilization * peak_flops_per_second > fastest_peak
    )
