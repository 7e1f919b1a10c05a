import { useState } from "preact/hooks";
import { errorText } from "../../../lib/error_text.ts";
import type { CreatedInvitation, Invitation } from "../../../resources/access/people/invitations/schema.ts";
import type { Role } from "../../../resources/access/people/policy.ts";
import { ApiError, api } from "../../data/api.ts";
import { reload, useList } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Copy } from "../../kit/copy.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { SelectField, TextField } from "../../kit/field.tsx";
import { ErrorBox, Loaded } from "../../kit/page.tsx";
import { More, Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { attempt } from "../../shell/toasts.tsx";
import { ROLE_WORDS } from "./roles.ts";

export function Invitations() {
  const list = useList<Invitation>("/v1/invitations?limit=50");
  const withdraw = ({ id, email }: Invitation) =>
    attempt(async () => {
      await api(`/v1/invitations/${id}`, { method: "DELETE" });
      await reload("/v1/invitations");
    }, `The invitation of ${email} is withdrawn`);
  return (
    <Card title="Open invitations">
      <Loaded of={{ ...list, data: list.items }}>
        {(rows) =>
          rows.length === 0 ? (
            <p class="muted">None.</p>
          ) : (
            <Table
              label="Open invitations"
              rows={rows}
              keyOf={({ id }) => id}
              columns={[
                { title: "E-mail address", cell: ({ email }) => email },
                { title: "Role", cell: ({ role }) => role },
                { title: "Ends", cell: ({ expires_at: at }) => <Time at={at} />, wide: true },
                {
                  title: "",
                  cell: (each) =>
                    may("account", false) && (
                      <Button label={`Withdraw ${each.email}`} onClick={() => void withdraw(each)}>
                        Withdraw
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
    </Card>
  );
}

const ROLES = Object.entries(ROLE_WORDS).map(([role, words]) => [role as Role, `${role}: ${words}`] as const);

export function Invite({ onClose }: { onClose: () => void }) {
  const [email, setEmail] = useState("");
  const [role, setRole] = useState<Role>("member");
  const [invitation, setInvitation] = useState<CreatedInvitation>();
  const [error, setError] = useState<ApiError>();
  const create = async () => {
    try {
      setInvitation(await api<CreatedInvitation>("/v1/invitations", { method: "POST", body: { email, role } }));
      void reload("/v1/invitations");
    } catch (cause) {
      setError(cause instanceof ApiError ? cause : new ApiError(0, null, errorText(cause)));
    }
  };
  if (invitation)
    return (
      <Dialog title="Send the link" onClose={onClose}>
        <div class="stack">
          <p>This link makes {invitation.email} a user. It works once, and this is the only time that it is shown.</p>
          <div class="command">
            <code>{invitation.url ?? invitation.notice}</code>
            <Copy text={invitation.url ?? ""} label="Copy the link" />
          </div>
        </div>
        <footer>
          <Button kind="primary" onClick={onClose}>
            Done
          </Button>
        </footer>
      </Dialog>
    );
  return (
    <Dialog title="Invite a person" onClose={onClose}>
      <div class="stack">
        <TextField label="E-mail address" type="email" value={email} onInput={setEmail} />
        <SelectField label="Role" value={role} options={ROLES} onChange={setRole} />
        {error && <ErrorBox error={error} />}
      </div>
      <footer>
        <Button onClick={onClose}>Cancel</Button>
        <Button kind="primary" onClick={create} disabled={email.trim() === ""}>
          Create the link
        </Button>
      </footer>
    </Dialog>
  );
}
