/** The users of the workspace and the open invitations. */
import { useState } from "preact/hooks";
import type { User } from "../../../resources/access/people/schema.ts";
import { api } from "../../data/api.ts";
import { reload, useList } from "../../data/resource.ts";
import { may, session } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Confirm } from "../../kit/dialog.tsx";
import { Empty, Page as Frame, Loaded } from "../../kit/page.tsx";
import { Pill } from "../../kit/pill.tsx";
import { More, Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";
import { attempt } from "../../shell/toasts.tsx";
import { Invitations, Invite } from "./invitations.tsx";
import { ROLE_WORDS } from "./roles.ts";

export function Page() {
  return (
    <Frame
      title="People"
      purpose="Each person signs in with their own password, has a role here, and is named in the audit log."
      actions={
        may("account", false) && (
          <Button kind="primary" icon="plus" onClick={() => setQuery({ new: "1" })}>
            Invite
          </Button>
        )
      }
    >
      <div class="grid">
        <Users />
        <Invitations />
      </div>
      {queryOf("new") === "1" && <Invite onClose={() => setQuery({ new: undefined })} />}
    </Frame>
  );
}

function Users() {
  const list = useList<User>("/v1/users?limit=50");
  const [removed, setRemoved] = useState<User>();
  const ownId = session.value.is === "in" ? session.value.session.user?.id : undefined;
  return (
    <Card title="Users">
      <Loaded of={{ ...list, data: list.items }}>
        {(rows) =>
          rows.length === 0 ? (
            <Empty
              title="No user yet"
              command="verk users add ada@example.com --role owner"
              action={may("account", false) && <Button onClick={() => setQuery({ new: "1" })}>Invite</Button>}
            />
          ) : (
            <Table
              label="Users"
              rows={rows}
              keyOf={({ id }) => id}
              columns={[
                { title: "Name", cell: (user) => <Name user={user} isOwn={user.id === ownId} /> },
                { title: "Role", cell: (user) => <RoleChoice user={user} /> },
                { title: "Second factor", cell: ({ second_factor: has }) => (has ? "yes" : "no"), wide: true },
                {
                  title: "Signed in",
                  cell: ({ last_sign_in_at: at }) => (at ? <Time at={at} /> : "never"),
                  wide: true,
                },
                {
                  title: "",
                  cell: (user) =>
                    may("account", false) && (
                      <Button kind="danger" label={`Remove ${user.email}`} onClick={() => setRemoved(user)}>
                        Remove
                      </Button>
                    ),
                  numeric: true,
                },
              ]}
            />
          )
        }
      </Loaded>
      <More list={list} />
      {removed && <Remove user={removed} onClose={() => setRemoved(undefined)} />}
    </Card>
  );
}

const Name = ({ user: { name, email }, isOwn }: { user: User; isOwn: boolean }) => (
  <span class="people-name">
    <b>{name}</b>
    <span class="row">
      <small>{email}</small>
      {isOwn && <Pill tone="good">You</Pill>}
    </span>
  </span>
);

function RoleChoice({ user: { id, email, role } }: { user: User }) {
  if (!may("account", false)) return <>{role}</>;
  const change = (to: string) =>
    attempt(async () => {
      await api(`/v1/users/${id}`, { method: "PATCH", body: { role: to } }).finally(() => reload("/v1/users"));
    }, `${email} is ${to} now`);
  return (
    <select aria-label={`Role of ${email}`} value={role} onChange={(event) => void change(event.currentTarget.value)}>
      {Object.keys(ROLE_WORDS).map((each) => (
        <option key={each} value={each}>
          {each}
        </option>
      ))}
    </select>
  );
}

function Remove({ user: { id, email }, onClose }: { user: User; onClose: () => void }) {
  const remove = () =>
    attempt(async () => {
      await api(`/v1/users/${id}`, { method: "DELETE" });
      await reload("/v1/users");
    }, `Removed ${email}`);
  return (
    <Confirm title="Remove the user" verb="Remove" onConfirm={remove} onClose={onClose}>
      <p>The sessions of {email} end, and all keys that this user has made are revoked.</p>
    </Confirm>
  );
}
