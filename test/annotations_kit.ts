import type { TestApp } from "./harness.ts";

const PATH = "/v1/annotation_queues";

/** Calls that many tests of annotation queues need. `app` is a function, because a test may open another app. */
export const annotationCalls = (app: () => TestApp) => {
  const item = (queue: string, id: string) => `${PATH}/${queue}/items/${id}`;
  return {
    dataset: async (format: string) =>
      (await app().call("POST", "/v1/datasets", { name: format, format })).body.id as string,
    create: async (body: object) => (await app().call("POST", PATH, { name: "q", ...body })).body.id as string,
    add: async (queue: string, items: object[]) =>
      (await app().call("POST", `${PATH}/${queue}/items`, { items })).body.item_ids as string[],
    next: async (queue: string, annotator: string, more: object = {}) => {
      const { status, body } = await app().call("POST", `${PATH}/${queue}/next`, { annotator, ...more });
      if (status !== 200) throw new Error(JSON.stringify(body));
      return body.item?.id as string | undefined;
    },
    annotate: (queue: string, id: string, annotator: string, more: object) =>
      app().call("POST", `${item(queue, id)}/annotations`, { annotator, ...more }),
    skip: (queue: string, id: string, annotator: string, more: object = {}) =>
      app().call("POST", `${item(queue, id)}/skip`, { annotator, ...more }),
    get: async (queue: string, id: string) => (await app().call("GET", item(queue, id))).body,
    rows: async (dataset: string) =>
      ((await app().call("GET", `/v1/datasets/${dataset}/rows/export`)).body as string)
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line) as Record<string, unknown>),
  };
};

export const pair = (input: string) => ({ input, outputs: [`${input} good`, `${input} bad`] });
