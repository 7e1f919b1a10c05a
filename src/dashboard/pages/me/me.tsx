/** The person who has signed in: workspaces, password, second factor, sessions. */
import type { ListedSession } from "../../../resources/access/browser_sessions/schema.ts";
import type { Me } from "../../../resources/access/people/me/schema.ts";
import { api } from "../../data/api.ts";
import { reload, useList, useResource } from "../../data/resource.ts";
import { Button } from "../../kit/button.tsx";
import { Card, Facts } from "../../kit/card.tsx";
import { Page as Frame, Loaded } from "../../kit/page.tsx";
import { Pill } from "../../kit/pill.tsx";
import { More, Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { attempt } from "../../shell/toasts.tsx";
import { browserOf } from "./browser_name.ts";
import { PasswordCard } from "./password.tsx";
import { SecondFactorCard } from "./second_factor.tsx";

export function Page() {
  const me = useResource<Me>("/v1/me");
  return (
    <Frame title="Your account" purpose="How you sign in, and where you are signed in now.">
      <Loaded of={me}>
        {(value) => (
          <div class="grid">
            <About me={value} />
            {value.user && value.has_password && (
              <div class="grid half">
                <SecondFactorCard me={value} />
                <PasswordCard />
              </div>
            )}
            <Sessions />
          </div>
        )}
      </Loaded>
    </Frame>
  );
}

function About({ me: { user, key, workspaces } }: { me: Me }) {
  if (!user)
    return (
      <Card title="A key, not a person">
        <p>
          This session began with the key <b>{key.name}</b>. Sign in as a user to change a password or to add a second
          factor.
        </p>
      </Card>
    );
  return (
    <Card title={user.name}>
      <Facts
        rows={[
          ["E-mail address", user.email],
          ["Workspaces", workspaces.map(({ name, role }) => `${name} (${role})`).join(", ")],
        ]}
      />
    </Card>
  );
}

const METHODS: Readonly<Record<ListedSession["method"], string>> = {
  key: "API key",
  password: "password",
  oidc: "provider",
};

function Sessions() {
  const list = useList<ListedSession>("/v1/browser_sessions?limit=50");
  const end = (id: string) =>
    attempt(async () => {
      await api(`/v1/browser_sessions/${id}`, { method: "DELETE" });
      await reload("/v1/browser_sessions");
    }, "The session has ended");
  return (
    <Card title="Sessions">
      <Loaded of={{ ...list, data: list.items }}>
        {(rows) => (
          <Table
            label="Sessions"
            rows={rows}
            keyOf={({ id }) => id}
            columns={[
              {
                title: "Browser",
                cell: ({ user_agent: agent }) => <span title={agent ?? undefined}>{browserOf(agent)}</span>,
              },
              { title: "Address", cell: ({ address }) => <code>{address ?? "unknown"}</code>, wide: true },
              { title: "Began with", cell: ({ method }) => METHODS[method], wide: true },
              { title: "Used", cell: ({ last_used_at: at }) => <Time at={at} />, wide: true },
              {
                title: "",
                cell: ({ id, current }) =>
                  current ? <Pill tone="good">This session</Pill> : <Button onClick={() => void end(id)}>End</Button>,
                numeric: true,
              },
            ]}
          />
        )}
      </Loaded>
      <More list={list} />
    </Card>
  );
}
