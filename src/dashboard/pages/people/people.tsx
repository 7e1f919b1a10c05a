/** The people of the workspace: roles, last use, second factor, sessions, invitations. */
import type { Invitation } from "../../../resources/access/people/invitations/schema.ts";
import type { User } from "../../../resources/access/people/schema.ts";
import { type List, useList } from "../../data/resource.ts";
import { may, session } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Empty, Page as Frame, Loaded, Skeleton } from "../../kit/page.tsx";
import { Pill } from "../../kit/pill.tsx";
import { More, Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";
import { Invitations, Invite } from "./invitations.tsx";
import { Person } from "./person.tsx";
import { Rights } from "./rights.tsx";
import { ROLES } from "./words.ts";

const invite = () => setQuery({ new: "1" });

export function Page() {
  const users = useList<User>("/v1/users?limit=50", { everyMs: 30_000 });
  const invitations = useList<Invitation>("/v1/invitations?limit=50");
  const isLoaded = [users, invitations].every(({ items, error }) => items !== undefined || error !== undefined);
  return (
    <Frame
      title="People"
      purpose="Each person signs in with their own password, has a role here, and is named in the audit log."
      actions={
        may("account", false) && (
          <Button kind="primary" icon="plus" onClick={invite}>
            Invite
          </Button>
        )
      }
    >
      {isLoaded ? (
        <div class="grid">
          <Users list={users} />
          <Invitations list={invitations} />
          <Rights />
        </div>
      ) : (
        <Skeleton height={560} />
      )}
      {queryOf("new") === "1" && <Invite onClose={() => setQuery({ new: undefined })} />}
    </Frame>
  );
}

function Users({ list }: { list: List<User> }) {
  const ownId = session.value.is === "in" ? session.value.session.user?.id : undefined;
  const opened = list.items?.find(({ id }) => id === queryOf("person"));
  return (
    <Card title="Users">
      <Loaded of={{ ...list, data: list.items }}>
        {(rows) =>
          rows.length === 0 ? (
            <Empty
              title="No user yet"
              command="verk users add ada@example.com --role owner"
              action={may("account", false) && <Button onClick={invite}>Invite</Button>}
            >
              Everyone works with API keys so far. Add the first owner on the server, or invite a person:
            </Empty>
          ) : (
            <Table
              label="Users"
              rows={rows}
              keyOf={({ id }) => id}
              columns={[
                { title: "Name", cell: (user) => <Name user={user} isOwn={user.id === ownId} /> },
                { title: "Role", cell: ({ role }) => <RoleName role={role} /> },
                { title: "Last seen", cell: (user) => <LastSeen user={user} />, wide: true },
                {
                  title: "Second factor",
                  cell: ({ second_factor: has }) => <Pill tone={has ? "good" : "idle"}>{has ? "On" : "Off"}</Pill>,
                  wide: true,
                },
                { title: "Sessions", cell: ({ sessions }) => sessions, numeric: true, wide: true },
                {
                  title: "",
                  cell: ({ id, email }) =>
                    may("account", false) && (
                      <Button label={`Manage ${email}`} onClick={() => setQuery({ person: id })}>
                        Manage
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
      {opened && may("account", false) && (
        <Person user={opened} isOwn={opened.id === ownId} onClose={() => setQuery({ person: undefined })} />
      )}
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

export const RoleName = ({ role }: { role: User["role"] }) => (
  <span class="people-name">
    <b>{ROLES[role][0]}</b>
    <small>{ROLES[role][1]}</small>
  </span>
);

function LastSeen({ user: { last_seen_at: seen, last_sign_in_at: signedIn } }: { user: User }) {
  if (seen) return <Time at={seen} />;
  if (!signedIn) return <span class="muted">never signed in</span>;
  return (
    <span class="muted">
      {"signed in "}
      <Time at={signedIn} />
    </span>
  );
}
