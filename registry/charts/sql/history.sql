-- Runs of one configuration in one framework that are known of two releases at least.
with runs as (
    select
        r.*,
        o.configuration_id,
        concat_ws('|', o.configuration_id, r.framework) as series,
        concat_ws(
            ', ',
            r.method_label,
            'length ' || r.seq_len,
            'batch ' || r.micro_batch_size,
            r.n_gpus || if(r.n_gpus = 1, ' card', ' cards'),
            r.framework
        ) as configuration,
        coalesce(
            json_extract_string(o.provenance, '$.label'),
            nullif(
                concat_ws(
                    ', ',
                    r.framework || ' ' || r.framework_version,
                    'peft ' || e.peft_version,
                    'transformers ' || e.transformers_version,
                    'torch ' || split_part(r.torch_version, '+', 1)
                ),
                ''
            )
        ) as release
    from finetuning as r
    inner join observations as o using (observation_id)
    inner join environments as e using (environment_id)
    where not coalesce(array_contains(r.flags, 'suspect'), false)
),
followed as (
    select series
    from runs
    group by series
    having count(distinct release) > 1
)
select *
from runs
