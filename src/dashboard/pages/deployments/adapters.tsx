/** The adapters that requests can choose, and where they are loaded. */
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import type { DeploymentLive } from "../../../resources/serving/deployments/traffic/schema.ts";
import { bytes, count, NONE, plural } from "../../data/format.ts";
import { useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { LinkButton } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Empty, Loaded } from "../../kit/page.tsx";
import { Pill } from "../../kit/pill.tsx";
import { Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";

const EVERY_MS = 3_000;

export function Adapters({ deployment: { id, name } }: { deployment: Deployment }) {
  const live = useResource<DeploymentLive>(`/v1/deployments/${encodeURIComponent(id)}/live`, { everyMs: EVERY_MS });
  return (
    <Card title="Adapters" note={`a request chooses one with the model ${name}:adapter`}>
      <Loaded of={live}>
        {({ adapters, replicas }) =>
          adapters.length === 0 ? (
            <Empty
              title="No adapter fits this model"
              action={may("training", false) && <LinkButton href="/runs/new">New run</LinkButton>}
            >
              The result of a run of the same base model is an adapter. It is loaded with the first request that chooses
              it.
            </Empty>
          ) : (
            <Table
              label="Adapters"
              rows={adapters}
              keyOf={({ model_id: model }) => model}
              href={({ model_id: model }) => `/models/${encodeURIComponent(model)}`}
              columns={[
                { title: "Adapter", cell: (adapter) => adapter.name },
                { title: "Base model", cell: ({ base_model: base }) => base ?? NONE, wide: true },
                {
                  title: "Loaded",
                  cell: ({ loaded_in: n }) =>
                    n === 0 ? (
                      <Pill tone="idle">Not loaded</Pill>
                    ) : (
                      <Pill tone="good">{replicas.length > 1 ? `In ${plural(n, "replica")}` : "Loaded"}</Pill>
                    ),
                },
                { title: "Size", cell: ({ bytes: size }) => bytes(size), numeric: true, wide: true },
                { title: "Requests now", cell: ({ open_requests: n }) => count(n), numeric: true },
                {
                  title: "Last used",
                  cell: ({ last_used_at: at, loaded_in: n }) =>
                    at ? <Time at={at} /> : n > 0 ? "by every request" : NONE,
                },
              ]}
            />
          )
        }
      </Loaded>
    </Card>
  );
}
