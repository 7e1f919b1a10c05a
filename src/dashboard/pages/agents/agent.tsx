/** One agent: a version of it, and all versions. */
import { useState } from "preact/hooks";
import type { Agent } from "../../../resources/serving/agents/schema.ts";
import { deleteResource, type List, reload, useList, useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button, LinkButton } from "../../kit/button.tsx";
import { Card, Facts } from "../../kit/card.tsx";
import { Command } from "../../kit/copy.tsx";
import { Confirm } from "../../kit/dialog.tsx";
import { Json } from "../../kit/json.tsx";
import { Page as Frame, Loaded } from "../../kit/page.tsx";
import { Pill } from "../../kit/pill.tsx";
import { More, Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { navigate, queryOf } from "../../shell/router.ts";
import { attempt } from "../../shell/toasts.tsx";
import { playgroundHref } from "../playground/link.ts";
import type { PageProps } from "../spec.ts";

export function Page({ params }: PageProps) {
  const name = params["name"] ?? "";
  const version = queryOf("version");
  const ref = version === undefined ? name : `${name}@${version}`;
  const agent = useResource<Agent>(`/v1/agents/${encodeURIComponent(ref)}`, { events: ["agent."] });
  const versions = useList<Agent>(`/v1/agents?name=${encodeURIComponent(name)}&limit=50`, { events: ["agent."] });
  const { data } = agent;
  return (
    <Frame
      title={name}
      above={[["Agents", "/agents"]]}
      purpose={data?.description ?? "\u00a0"}
      beside={data && <Pill tone="idle">{`Version ${data.version}`}</Pill>}
      actions={data && <Actions agent={data} isLast={versions.items?.length === 1} />}
    >
      <Loaded of={agent}>
        {(row) => (
          <div class="grid two">
            <div class="grid">
              <Card title="System prompt">
                {row.system_prompt === null ? <p class="muted">None</p> : <pre class="text">{row.system_prompt}</pre>}
              </Card>
              <Card title="Tools">
                {row.tools.length === 0 ? <p class="muted">None</p> : <Json value={row.tools} />}
              </Card>
              <Versions of={versions} shown={row.id} />
            </div>
            <About agent={row} />
          </div>
        )}
      </Loaded>
    </Frame>
  );
}

const About = ({ agent: { name, deployment, sampling, created_at: at, metadata } }: { agent: Agent }) => (
  <div class="grid">
    <Card title="About">
      <Facts
        rows={[
          ["Deployment", deployment],
          ...Object.entries(sampling).map(
            ([field, value]) => [field, typeof value === "string" ? value : JSON.stringify(value)] as const,
          ),
          ...Object.entries(metadata),
          ["Made", <Time key="made" at={at} />],
        ]}
      />
    </Card>
    <Card title="Use it">
      <div class="stack">
        <p class="muted">Chat at the terminal, or send its name as the model of POST /v1/chat/completions.</p>
        <Command text={`verk chat ${quoted(name)}`} />
      </div>
    </Card>
  </div>
);

/** A name is text of a user: a shell that gets the command must not run any of it. */
const quoted = (name: string) => (/^[\w.-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`);

const Versions = ({ of: list, shown }: { of: List<Agent>; shown: string }) => (
  <Card title="Versions">
    <Loaded of={{ ...list, data: list.items }}>
      {(rows) => (
        <Table
          label="Versions"
          rows={rows}
          keyOf={({ id }) => id}
          href={({ name, version }) => `/agents/${encodeURIComponent(name)}?version=${version}`}
          columns={[
            { title: "Version", cell: ({ version, id }) => `${version}${id === shown ? ", shown" : ""}` },
            { title: "Deployment", cell: ({ deployment }) => deployment },
            { title: "Made", cell: ({ created_at: at }) => <Time at={at} /> },
          ]}
        />
      )}
    </Loaded>
    <More list={list} />
  </Card>
);

function Actions({ agent, isLast }: { agent: Agent; isLast: boolean }) {
  const [isAsking, setIsAsking] = useState(false);
  const { id, name, version } = agent;
  const page = `/agents/${encodeURIComponent(name)}`;
  const remove = async () => {
    if ((await attempt(() => deleteResource(`/v1/agents/${id}`), "Deleted")) === undefined) return;
    await reload("/v1/agents");
    navigate(isLast ? "/agents" : page);
  };
  return (
    <>
      <LinkButton
        href={playgroundHref({
          columns: [{ kind: "agent", name: queryOf("version") === undefined ? name : `${name}@${version}` }],
        })}
      >
        Open in playground
      </LinkButton>
      {may("training", false) && (
        <>
          <LinkButton href={`${page}/edit`}>Edit</LinkButton>
          <Button kind="danger" onClick={() => setIsAsking(true)}>
            Delete
          </Button>
        </>
      )}
      {isAsking && (
        <Confirm
          title={`Delete version ${version}?`}
          verb="Delete"
          onConfirm={remove}
          onClose={() => setIsAsking(false)}
        >
          {isLast ? "It is the only version: requests that name the agent fail." : "The other versions stay."}
        </Confirm>
      )}
    </>
  );
}
