import { useState } from "preact/hooks";
import { api } from "../../data/api.ts";
import { reload } from "../../data/resource.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { TextField } from "../../kit/field.tsx";
import { attempt } from "../../shell/toasts.tsx";

export function PasswordCard() {
  const [password, setPassword] = useState("");
  const [next, setNext] = useState("");
  const change = (event: Event) => {
    event.preventDefault();
    return attempt(async () => {
      await api("/v1/me/password", { method: "POST", body: { password, new_password: next } });
      setPassword("");
      setNext("");
      await reload("/v1/browser_sessions");
    }, "The password is changed. Your other sessions have ended.");
  };
  return (
    <Card title="Password">
      <form class="stack" onSubmit={change}>
        <TextField
          label="Password now"
          type="password"
          value={password}
          onInput={setPassword}
          autocomplete="current-password"
        />
        <TextField
          label="New password"
          type="password"
          value={next}
          onInput={setNext}
          autocomplete="new-password"
          hint="10 to 200 characters."
        />
        <div class="row">
          <Button submit disabled={password === "" || next.length < 10}>
            Change the password
          </Button>
        </div>
      </form>
    </Card>
  );
}
