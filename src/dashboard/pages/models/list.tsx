/** All models of the workspace and of the installation, as a family tree. */
import { useEffect, useState } from "preact/hooks";
import { api } from "../../data/api.ts";
import { count } from "../../data/format.ts";
import { type Page as ListPage, useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { SelectField, TextField } from "../../kit/field.tsx";
import { Empty, Page as Frame, Loaded, Skeleton } from "../../kit/page.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";
import { Family } from "./family.tsx";
import { DropModel, ImportModel, PullModel } from "./import.tsx";
import { kept, treeOf } from "./tree.ts";
import { isOpen, type Model } from "./types.ts";
import type { Chosen } from "./upload.ts";

const PAGE = 100;
const MOST_PAGES = 20;
export const CONTEXTS = ["2048", "4096", "8192", "16384", "32768", "131072"] as const;

/** Every model: a tree needs all of its parts. */
export function useModels(context?: string) {
  const path = `/v1/models?registry=true&limit=${PAGE}${context === undefined ? "" : `&context_length=${context}`}`;
  const first = useResource<ListPage<Model>>(path, { events: ["model.", "deployment."], everyMs: 2_000 });
  const [rest, setRest] = useState<readonly Model[]>([]);
  const { data } = first;
  useEffect(() => {
    if (!data?.has_more) return setRest([]);
    let isCurrent = true;
    void laterPages(path, data.data.at(-1)?.id).then((models) => isCurrent && setRest(models));
    return () => {
      isCurrent = false;
    };
  }, [data?.has_more, data?.data.at(-1)?.id, path]);
  const known = new Set(data?.data.map(({ id }) => id));
  return { ...first, data: data && [...data.data, ...rest.filter(({ id }) => !known.has(id))] };
}

async function laterPages(path: string, from: string | undefined): Promise<Model[]> {
  const models: Model[] = [];
  for (let after = from, pages = 0; after !== undefined && pages < MOST_PAGES; pages++) {
    const page = await api<ListPage<Model>>(`${path}&after=${encodeURIComponent(after)}`);
    models.push(...page.data);
    after = page.has_more ? page.data.at(-1)?.id : undefined;
  }
  return models;
}

export function Page() {
  const context = CONTEXTS.find((each) => each === queryOf("context")) ?? "4096";
  const search = queryOf("q") ?? "";
  const models = useModels(context);
  const [chosen, setChosen] = useState<Chosen>();
  const mayWrite = may("inference", false);
  const needle = search.trim().toLowerCase();
  const fits = ({ name, architecture }: Model) => `${name} ${architecture}`.toLowerCase().includes(needle);
  return (
    <Frame
      title="Models"
      purpose="Base models, and everything that was made of them. Serve, train on, quantize or take home any of them."
      actions={
        mayWrite && (
          <Button kind="primary" icon="plus" onClick={() => setQuery({ pull: "1" })}>
            Pull from the hub
          </Button>
        )
      }
    >
      <div class="grid">
        {mayWrite && <DropModel onChoose={setChosen} />}
        <Card>
          <search class="filters models-filters">
            <TextField
              label="Search"
              type="search"
              value={search}
              placeholder="Name"
              onInput={(q) => setQuery({ q })}
            />
            <SelectField
              label="Memory at a context of"
              value={context}
              options={CONTEXTS.map((each) => [each, `Memory at ${count(Number(each))} tokens`] as const)}
              onChange={(next) => setQuery({ context: next })}
            />
          </search>
          <Loaded of={models} skeleton={<Skeleton rows={6} />}>
            {(all) => {
              const tree = needle === "" ? treeOf(all) : kept(treeOf(all), fits);
              return tree.length === 0 ? (
                <Empty
                  title={needle === "" ? "No model yet" : "No model has this name"}
                  action={
                    needle === "" ? undefined : (
                      <Button onClick={() => setQuery({ q: undefined })}>Clear the search</Button>
                    )
                  }
                >
                  {needle === "" ? "Drop a file above, or pull a model from the hub." : undefined}
                </Empty>
              ) : (
                <Family label="Models" nodes={tree} context={count(Number(context))} />
              );
            }}
          </Loaded>
          {(models.data ?? []).some(isOpen) && (
            <p class="muted" role="status">
              Models that are not ready yet appear here as they arrive.
            </p>
          )}
        </Card>
      </div>
      {chosen && <ImportModel chosen={chosen} onClose={() => setChosen(undefined)} />}
      {queryOf("pull") === "1" && <PullModel onClose={() => setQuery({ pull: undefined })} />}
    </Frame>
  );
}
