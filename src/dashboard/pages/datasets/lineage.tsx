/** The runs that read the dataset. */
import type { Dataset } from "../../../resources/data/datasets/schema.ts";
import type { TrainingJob } from "../../../resources/training/training_jobs/schema.ts";
import { useResource } from "../../data/resource.ts";
import { Card } from "../../kit/card.tsx";
import { Empty, Loaded } from "../../kit/page.tsx";
import { State } from "../../kit/pill.tsx";
import { Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { Headline } from "../runs/headline.tsx";
import { usesOf } from "./samples.ts";

export function Lineage({ dataset }: { dataset: Dataset }) {
  const jobs = useResource<{ data: TrainingJob[] }>("/v1/training_jobs?limit=100", { events: ["job."] });
  const partOf = ({ dataset: train, eval_dataset }: TrainingJob) => [
    ...(train?.id === dataset.id ? [`training ${train.snapshot_id ?? ""}`] : []),
    ...(eval_dataset?.id === dataset.id ? [`evaluation ${eval_dataset.snapshot_id ?? ""}`] : []),
  ];
  return (
    <Card title="Runs that read this dataset" note="of the 100 newest runs">
      <Loaded of={jobs}>
        {({ data }) => {
          const runs = usesOf(data, dataset.id);
          if (runs.length === 0)
            return (
              <Empty
                title="No run yet"
                command={`verk jobs create --model verk-tiny --method sft --dataset ${dataset.id}`}
              >
                Start a run on this dataset. Choose a row to see the samples that a run made from it.
              </Empty>
            );
          return (
            <Table
              label="Runs that read this dataset"
              rows={runs}
              keyOf={({ id }) => id}
              href={({ id }) => `/runs/${id}`}
              columns={[
                { title: "Run", cell: ({ output_name }) => output_name },
                { title: "State", cell: ({ status }) => <State status={status} /> },
                { title: "Rows used for", cell: (job) => partOf(job).join(", ") },
                { title: "Method", cell: ({ method }) => method, wide: true },
                { title: "Result", cell: ({ headline_metric: metric }) => <Headline metric={metric} />, numeric: true },
                { title: "Created", cell: ({ created_at }) => <Time at={created_at} />, wide: true },
              ]}
            />
          );
        }}
      </Loaded>
    </Card>
  );
}
