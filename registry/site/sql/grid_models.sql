-- Models of language whose shape is known, those that most sources have fine-tuned first.
select f.model_id
from finetuning as f
inner join models as m using (model_id)
where
    f.evidence = 'measured'
    and m.n_params >= 5e8
    and m.hidden_size is not null
    and m.vocab_size is not null
    and m.n_layers is not null
group by f.model_id
order by count(distinct f.source_id) desc, count(f.peak_memory_bytes) desc, f.model_id
limit $most
