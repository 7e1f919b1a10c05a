import { useSignal } from "@preact/signals";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import { api } from "../../data/api.ts";
import { deleteResource, reload, useResource } from "../../data/resource.ts";
import { useRunNames } from "../../data/run_names.ts";
import { may } from "../../data/session.ts";
import { Button, LinkButton } from "../../kit/button.tsx";
import { Ref } from "../../kit/content.tsx";
import { Confirm } from "../../kit/dialog.tsx";
import { Page as Frame, Loaded, Skeleton } from "../../kit/page.tsx";
import { State } from "../../kit/pill.tsx";
import { Tabs, tabOf } from "../../kit/tabs.tsx";
import { navigate } from "../../shell/router.ts";
import { attempt } from "../../shell/toasts.tsx";
import type { PageProps } from "../spec.ts";
import { Adapters } from "./adapters.tsx";
import { Connect } from "./connect.tsx";
import { Log } from "./log.tsx";
import { Requests } from "./requests.tsx";
import { Settings } from "./settings.tsx";
import { Traffic } from "./traffic.tsx";
import { stateOf } from "./words.ts";

const TABS = [
  ["traffic", "Traffic"],
  ["requests", "Requests"],
  ["adapters", "Adapters"],
  ["log", "Log"],
  ["settings", "Settings"],
  ["connect", "Connect"],
] as const;

export function Page({ params }: PageProps) {
  const path = `/v1/deployments/${encodeURIComponent(params["id"] ?? "")}`;
  const deployment = useResource<Deployment>(path, { events: ["deployment."], everyMs: 3_000 });
  const { data } = deployment;
  const nameOf = useRunNames();
  const tab = tabOf("traffic");
  return (
    <Frame
      title={data?.name ?? "Deployment"}
      above={[["Deployments", "/deployments"]]}
      beside={data && <State {...stateOf(data)} />}
      purpose={data && <Source deployment={data} name={nameOf(data.model)} />}
      actions={data && <Actions deployment={data} path={path} />}
    >
      <Loaded of={deployment} skeleton={<Skeleton height={300} />}>
        {(loaded) => (
          <>
            <Tabs label="Parts of the deployment" tabs={TABS} />
            {tab === "traffic" && <Traffic deployment={loaded} />}
            {tab === "requests" && <Requests id={loaded.id} />}
            {tab === "settings" && <Settings key={loaded.updated_at} deployment={loaded} />}
            {tab === "adapters" && <Adapters deployment={loaded} />}
            {tab === "log" && <Log deployment={loaded} />}
            {tab === "connect" && <Connect deployment={loaded} />}
          </>
        )}
      </Loaded>
    </Frame>
  );
}

const Source = ({
  deployment: { model, source, checkpoint, region },
  name,
}: {
  deployment: Deployment;
  name: string;
}) => (
  <>
    {source === "training_job" ? (
      <>
        {"Run "}
        <Ref page="/runs/:id" id={model}>
          {name}
        </Ref>
      </>
    ) : (
      model
    )}
    {checkpoint !== null && `, checkpoint ${checkpoint}`}
    {region !== "local" && (
      <>
        {", in the region "}
        <a href="/regions">{region}</a>
      </>
    )}
  </>
);

function Actions({
  deployment: { id, name, status, parked, min_replicas: floor },
  path,
}: {
  deployment: Deployment;
  path: string;
}) {
  const isStopping = useSignal(false);
  const isDeleting = useSignal(false);
  const act = (verb: string, done: string) => async () => {
    await attempt(() => api(`${path}/${verb}`, { method: "POST" }), done);
    await reload("/v1/deployments");
  };
  const remove = () =>
    attempt(async () => {
      await deleteResource(path);
      navigate("/deployments");
      await reload("/v1/deployments");
    }, `${name} is deleted`);
  const isOver = status === "stopped" || status === "failed";
  if (!may("inference", false)) return null;
  return (
    <>
      {!isOver && <LinkButton href={`/playground?cols=${id}`}>Try</LinkButton>}
      {status === "serving" && !parked && floor === 0 && (
        <Button onClick={act("park", `${name} is parked`)}>Park</Button>
      )}
      {parked && <Button onClick={act("wake", `${name} wakes`)}>Wake</Button>}
      {isOver ? (
        <>
          <Button kind="danger" onClick={() => (isDeleting.value = true)}>
            Delete
          </Button>
          <Button kind="primary" onClick={act("start", `${name} starts`)}>
            Start
          </Button>
        </>
      ) : (
        <Button kind="danger" onClick={() => (isStopping.value = true)}>
          Stop
        </Button>
      )}
      {isStopping.value && (
        <Confirm
          title={`Stop ${name}`}
          verb="Stop"
          onConfirm={act("stop", `${name} is stopped`)}
          onClose={() => (isStopping.value = false)}
        >
          Requests that are being answered end with an error. The deployment can be started again.
        </Confirm>
      )}
      {isDeleting.value && (
        <Confirm title={`Delete ${name}`} verb="Delete" onConfirm={remove} onClose={() => (isDeleting.value = false)}>
          The deployment and its recorded requests are removed. The model and the charges stay.
        </Confirm>
      )}
    </>
  );
}
