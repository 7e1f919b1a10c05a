import { useState } from "preact/hooks";
import { errorText } from "../../../lib/error_text.ts";
import type { CreatedInvitation, Invitation } from "../../../resources/access/people/invitations/schema.ts";
import type { Role } from "../../../resources/access/people/policy.ts";
import { ApiError, api } from "../../data/api.ts";
import { exactTime } from "../../data/format.ts";
import { type List, reload } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Copy } from "../../kit/copy.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { SelectField, TextField } from "../../kit/field.tsx";
import { ErrorBox, Loaded } from "../../kit/page.tsx";
import { Pill } from "../../kit/pill.tsx";
import { More, Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";
import { attempt } from "../../shell/toasts.tsx";
import { ROLE_OPTIONS, ROLES } from "./words.ts";

export function Invitations({ list }: { list: List<Invitation> }) {
  const withdraw = ({ id, email }: Invitation) =>
    attempt(async () => {
      await api(`/v1/invitations/${id}`, { method: "DELETE" });
      await reload("/v1/invitations");
    }, `The invitation of ${email} is withdrawn`);
  return (
    <Card title="Invitations" note="the links are sent by you, not by the server">
      <Loaded of={{ ...list, data: list.items }}>
        {(rows) =>
          rows.length === 0 ? (
            <p class="muted">No invitation is open. Accepted ones are in the list of users.</p>
          ) : (
            <Table
              label="Invitations"
              rows={rows}
              keyOf={({ id }) => id}
              columns={[
                { title: "E-mail address", cell: ({ email }) => email },
                { title: "State", cell: (each) => <StateOf invitation={each} /> },
                { title: "Role", cell: ({ role }) => ROLES[role][0], wide: true },
                { title: "Invited by", cell: ({ invited_by: by }) => by ?? "a key", wide: true },
                {
                  title: "",
                  cell: (each) => may("account", false) && <Actions invitation={each} onWithdraw={withdraw} />,
                  numeric: true,
                },
              ]}
            />
          )
        }
      </Loaded>
      <More list={list} />
    </Card>
  );
}

const StateOf = ({ invitation: { status, expires_at: at } }: { invitation: Invitation }) => (
  <span class="people-state">
    <Pill tone={status === "open" ? "wait" : "idle"}>{status === "open" ? "Open" : "Expired"}</Pill>
    <small>
      {status === "open" ? "ends " : ""}
      <Time at={at} />
    </small>
  </span>
);

type ActionsProps = { invitation: Invitation; onWithdraw: (invitation: Invitation) => Promise<unknown> };

const Actions = ({ invitation, onWithdraw }: ActionsProps) => (
  <span class="row people-actions">
    {invitation.status === "expired" && (
      <Button
        label={`Invite again: ${invitation.email}`}
        onClick={() => setQuery({ new: "1", email: invitation.email, role: invitation.role })}
      >
        Invite again
      </Button>
    )}
    <Button
      label={`${invitation.status === "open" ? "Withdraw" : "Remove"} ${invitation.email}`}
      onClick={() => onWithdraw(invitation)}
    >
      {invitation.status === "open" ? "Withdraw" : "Remove"}
    </Button>
  </span>
);

const HOURS = [
  ["24", "1 day"],
  ["72", "3 days"],
  ["168", "7 days"],
  ["720", "30 days"],
] as const;

const isRole = (text: string | undefined): text is Role => text !== undefined && Object.hasOwn(ROLES, text);

export function Invite({ onClose }: { onClose: () => void }) {
  const wanted = queryOf("role");
  const [email, setEmail] = useState(queryOf("email") ?? "");
  const [role, setRole] = useState<Role>(isRole(wanted) ? wanted : "member");
  const [hours, setHours] = useState<(typeof HOURS)[number][0]>("72");
  const [invitation, setInvitation] = useState<CreatedInvitation>();
  const [error, setError] = useState<ApiError>();
  const close = () => {
    setQuery({ email: undefined, role: undefined });
    onClose();
  };
  const create = async () => {
    const body = { email, role, expires_in_hours: Number(hours) };
    try {
      setInvitation(await api<CreatedInvitation>("/v1/invitations", { method: "POST", body }));
      void reload("/v1/invitations");
    } catch (cause) {
      setError(cause instanceof ApiError ? cause : new ApiError(0, null, errorText(cause)));
    }
  };
  if (invitation)
    return (
      <Dialog title="Send the link" onClose={close}>
        <div class="stack">
          <p>
            {`Send this link to ${invitation.email}. It works once, until ${exactTime(invitation.expires_at)}, and is not shown again.`}
          </p>
          <div class="command">
            <code>{invitation.url ?? invitation.notice}</code>
            <Copy text={invitation.url ?? ""} label="Copy the link" />
          </div>
        </div>
        <footer>
          <Button kind="primary" onClick={close}>
            Done
          </Button>
        </footer>
      </Dialog>
    );
  return (
    <Dialog title="Invite a person" onClose={close}>
      <form
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          if (email.trim() !== "") void create();
        }}
      >
        <div class="stack">
          <TextField label="E-mail address" type="email" value={email} onInput={setEmail} />
          <SelectField label="Role" value={role} options={ROLE_OPTIONS} onChange={setRole} />
          <SelectField label="The link works for" value={hours} options={HOURS} onChange={setHours} />
          {error && <ErrorBox error={error} title="The invitation was not made" />}
        </div>
        <footer class="people-footer">
          <Button onClick={close}>Cancel</Button>
          <Button kind="primary" submit disabled={email.trim() === ""}>
            Create the link
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
