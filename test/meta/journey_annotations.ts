import type { TestApp } from "../harness.ts";
import type { Step } from "./journey.ts";

const PATH = "/v1/annotation_queues";
const PAIR = { input: "Name a river.", outputs: ["Nile", "Everest"] };

const queue = async (app: TestApp) => {
  const { body: dataset } = await app.call("POST", "/v1/datasets", { name: "pairs", format: "preference" });
  const { body } = await app.call("POST", PATH, { name: "q", mode: "pairwise", dataset_id: dataset.id });
  return { id: body.id as string };
};
const item = async (app: TestApp) => {
  const { id } = await queue(app);
  const { body } = await app.call("POST", `${PATH}/${id}/items`, { items: [PAIR] });
  return { id, item: body.item_ids[0] as string };
};

export const ANNOTATIONS: Step[] = [
  {
    operation: `POST ${PATH}`,
    json: { name: "tone", mode: "single", labels: [{ name: "tone", type: "choice", options: ["kind", "rude"] }] },
  },
  { operation: `GET ${PATH}` },
  { operation: `GET ${PATH}/{id}`, own: queue },
  { operation: `PATCH ${PATH}/{id}`, own: queue, json: { lease_seconds: 60 } },
  { operation: `DELETE ${PATH}/{id}`, own: queue },
  { operation: `POST ${PATH}/{id}/items`, own: queue, json: { items: [PAIR] } },
  { operation: `GET ${PATH}/{id}/items`, own: item },
  { operation: `GET ${PATH}/{id}/items/{item}`, own: item },
  { operation: `POST ${PATH}/{id}/next`, own: item, json: { annotator: "ada" } },
  { operation: `POST ${PATH}/{id}/items/{item}/annotations`, own: item, json: { preferred: "first" } },
  { operation: `POST ${PATH}/{id}/items/{item}/skip`, own: item, json: { for_all: true } },
  { operation: `GET ${PATH}/{id}/agreement`, own: item },
];
