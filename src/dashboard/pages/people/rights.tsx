/** The roles as a table: what each may do. */
import type { Role } from "../../../resources/access/people/policy.ts";
import { Card } from "../../kit/card.tsx";
import { Icon } from "../../kit/icon.tsx";
import { RIGHTS, ROLES } from "./words.ts";

const NAMES = Object.entries(ROLES).map(([role, [shown, does]]) => [role as Role, shown, does] as const);

export const Rights = () => (
  <Card title="What each role may do">
    <div class="scroll">
      <table class="people-rights">
        <thead>
          <tr>
            <td />
            {NAMES.map(([role, shown, does]) => (
              <th key={role} scope="col" title={`${shown}: ${does}`}>
                {shown}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {RIGHTS.map(([does, , roles]) => (
            <tr key={does}>
              <th scope="row">{does}</th>
              {NAMES.map(([role]) => (
                <td key={role} class={roles.includes(role) ? "may" : "not"}>
                  {roles.includes(role) ? <Icon name="check" /> : "–"}
                  <span class="hidden">{roles.includes(role) ? "may" : "may not"}</span>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
    <p class="muted people-note">
      Only an owner makes, changes and removes owners. The last owner of a workspace stays.
    </p>
  </Card>
);
