/** A person: role, second factor, sessions, and the way out of the workspace. */
import { useState } from "preact/hooks";
import type { ListedSession } from "../../../resources/access/browser_sessions/schema.ts";
import type { Role } from "../../../resources/access/people/policy.ts";
import type { User } from "../../../resources/access/people/schema.ts";
import { api } from "../../data/api.ts";
import { plural } from "../../data/format.ts";
import { deleteResource, reload, useList } from "../../data/resource.ts";
import { Button } from "../../kit/button.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { Loaded, Skeleton } from "../../kit/page.tsx";
import { Pill } from "../../kit/pill.tsx";
import { More } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { attempt } from "../../shell/toasts.tsx";
import { browserOf } from "../me/browser_name.ts";
import { METHODS, ROLES } from "./words.ts";

type PersonProps = { user: User; isOwn: boolean; onClose: () => void };

/** Runs a change of the user, and loads the lists again whatever came of it. */
const changing = (action: () => Promise<unknown>, done: string) =>
  attempt(() => action().finally(() => reload("/v1/users")), done);

export function Person({ user, isOwn, onClose }: PersonProps) {
  const [isRemoving, setRemoving] = useState(false);
  return (
    <Dialog title={user.name} onClose={onClose} wide>
      {isRemoving ? (
        <Removing user={user} onBack={() => setRemoving(false)} onDone={onClose} />
      ) : (
        <div class="people-person">
          <p class="muted">
            {user.email}
            {user.operator && ". Also manages the installation, as the operator."}
          </p>
          <RoleChoice user={user} />
          <SecondFactor user={user} />
          <Sessions user={user} isOwn={isOwn} />
          <section>
            <h3>Remove from the workspace</h3>
            <p class="muted">{`What ${user.name} made stays. Their access ends.`}</p>
            <div class="row">
              <Button kind="danger" onClick={() => setRemoving(true)}>
                {`Remove ${user.name}`}
              </Button>
            </div>
          </section>
        </div>
      )}
    </Dialog>
  );
}

function RoleChoice({ user: { id, name, role } }: { user: User }) {
  const [chosen, setChosen] = useState<Role>(role);
  const change = () =>
    changing(
      () => api(`/v1/users/${id}`, { method: "PATCH", body: { role: chosen } }),
      `${name} is ${ROLES[chosen][0]} now`,
    );
  return (
    <fieldset class="people-roles">
      <legend>Role</legend>
      {Object.entries(ROLES).map(([each, [shown, does]]) => (
        <label key={each}>
          <input
            type="radio"
            name="role"
            value={each}
            checked={each === chosen}
            onChange={() => setChosen(each as Role)}
          />
          <span>
            <b>{shown}</b>
            <small>{does}</small>
          </span>
        </label>
      ))}
      <p class="muted">
        A change counts at the next request. Keys that the person made lose what the new role may not do.
      </p>
      <div class="row">
        <Button onClick={change} disabled={chosen === role}>
          Change the role
        </Button>
      </div>
    </fieldset>
  );
}

function SecondFactor({ user: { id, name, second_factor: has } }: { user: User }) {
  const remove = () =>
    changing(
      () => api(`/v1/users/${id}/second_factor`, { method: "DELETE" }),
      `${name} signs in with the password alone now`,
    );
  return (
    <section>
      <h3>
        Second factor <Pill tone={has ? "good" : "warn"}>{has ? "On" : "Off"}</Pill>
      </h3>
      <p class="muted">
        {has
          ? "Sign-in needs a code of an authenticator app. Remove it only if the person has lost the app and the recovery codes."
          : `Sign-in needs the password alone. ${name} can add a second factor under "Your account".`}
      </p>
      {has && (
        <div class="row">
          <Button onClick={remove}>Remove the second factor</Button>
        </div>
      )}
    </section>
  );
}

function Sessions({ user: { id, name, sessions }, isOwn }: { user: User; isOwn: boolean }) {
  const path = `/v1/users/${id}/sessions`;
  const list = useList<ListedSession>(`${path}?limit=50`);
  const after = async () => void (await Promise.all([reload(path), reload("/v1/users")]));
  const end = (session: string) =>
    attempt(() => api(`/v1/browser_sessions/${session}`, { method: "DELETE" }).finally(after), "The session has ended");
  const endAll = () =>
    attempt(() => api(path, { method: "DELETE" }).finally(after), `${name} is signed out everywhere in this workspace`);
  return (
    <section aria-label="Sessions">
      <h3>Sessions</h3>
      <Loaded of={{ ...list, data: list.items }} skeleton={<Skeleton rows={2} />}>
        {(rows) =>
          rows.length === 0 ? (
            <p class="muted">{`${name} is signed in nowhere.`}</p>
          ) : (
            <ul class="people-sessions">
              {rows.map(({ id: session, user_agent: agent, address, method, last_used_at: used, current }) => (
                <li key={session}>
                  <span title={agent ?? undefined}>
                    <b>{browserOf(agent)}</b>
                    <small>
                      {`${address ?? "unknown address"}, ${METHODS[method].toLowerCase()}, used `}
                      <Time at={used} />
                    </small>
                  </span>
                  {current ? (
                    <Pill tone="good">This session</Pill>
                  ) : (
                    <Button label={`End the session ${browserOf(agent)}`} onClick={() => end(session)}>
                      End
                    </Button>
                  )}
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
      <More list={list} />
      {sessions > 0 && (
        <div class="row">
          <Button onClick={endAll}>
            {isOwn ? "End all, also this one" : `End all (${plural(sessions, "session")})`}
          </Button>
        </div>
      )}
    </section>
  );
}

type RemovingProps = { user: User; onBack: () => void; onDone: () => void };

function Removing({ user: { id, name, email, sessions, role }, onBack, onDone }: RemovingProps) {
  const remove = async () => {
    const done = await changing(() => deleteResource(`/v1/users/${id}`), `Removed ${email}`);
    if (done !== undefined) onDone();
  };
  return (
    <>
      <div class="prose">
        <p>{`If you remove ${email} (${ROLES[role][0]}):`}</p>
        <ul>
          <li>
            {sessions === 0
              ? "They are signed in nowhere now."
              : `${plural(sessions, "session")} of theirs end at once.`}
          </li>
          <li>All API keys that they made are revoked. Programs with these keys stop working.</li>
          <li>Invitations that they sent and that are open stop working.</li>
          <li>Runs, datasets, models and deployments that they made stay and go on.</li>
          <li>{`The audit log keeps the name of ${name}.`}</li>
          <li>An account in other workspaces of this server stays.</li>
        </ul>
      </div>
      <footer>
        <Button onClick={onBack}>Back</Button>
        <Button kind="danger" onClick={remove}>
          Remove
        </Button>
      </footer>
    </>
  );
}
