/** Adds a machine over SSH or a cluster with Slurm. It is tested before it can be saved. */
import { useState } from "preact/hooks";
import { errorText } from "../../../lib/error_text.ts";
import type { SshKey } from "../../../resources/access/ssh_keys/schema.ts";
import type { Region, RegionCheck } from "../../../resources/machines/regions/schema.ts";
import { ApiError, api } from "../../data/api.ts";
import { type Page, reload, useResource } from "../../data/resource.ts";
import { Button } from "../../kit/button.tsx";
import { Copy } from "../../kit/copy.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { SelectField, TextField } from "../../kit/field.tsx";
import { toast } from "../../shell/toasts.tsx";
import { BLANK, checkBody, type Draft, missingIn, regionBody } from "./form.ts";
import { Steps } from "./steps.tsx";

/** A pair that was stored for a test. */
type StoredPair = { text: string; id: string };

const pairText = ({ publicKey, privateKey }: Draft) => `${publicKey}\n${privateKey}`;

/** `tested`: the values that the check was made with. */
type Tested = { check: RegionCheck; tested: string };

export function Add({ onClose }: { onClose: () => void }) {
  const [draft, setDraft] = useState<Draft>(BLANK);
  const [tested, setTested] = useState<Tested>();
  const [error, setError] = useState<ApiError>();
  const [pair, setPair] = useState<StoredPair>();
  const keys = useResource<Page<SshKey>>("/v1/ssh_keys?limit=100").data?.data ?? [];
  const set = (part: Partial<Draft>) => setDraft((now) => ({ ...now, ...part }));
  const missing = missingIn(draft);
  const isStored = draft.keyId === "" && pair?.text === pairText(draft);
  const whole = isStored ? { ...draft, keyId: pair.id } : draft;
  const isTested = tested !== undefined && tested.tested === JSON.stringify(checkBody(whole));
  const act = async (work: () => Promise<void>) => {
    setError(undefined);
    try {
      await work();
    } catch (cause) {
      if (!(cause instanceof ApiError)) throw cause;
      setError(cause);
    }
  };
  const test = () =>
    act(async () => {
      setTested(undefined);
      const keyId = whole.keyId === "" ? await storeKey(draft) : whole.keyId;
      if (whole.keyId === "") setPair({ text: pairText(draft), id: keyId });
      const body = checkBody({ ...draft, keyId });
      const check = await api<RegionCheck>("/v1/regions/checks", { method: "POST", body });
      setTested({ check, tested: JSON.stringify(body) });
    });
  const save = () =>
    act(async () => {
      const body = regionBody(whole, tested?.check.host_key ?? "");
      const { name } = await api<Region>("/v1/regions", { method: "POST", body });
      await reload("/v1/regions");
      toast(`${name} is added. The server copies its program there now`);
      onClose();
    });
  return (
    <Dialog title="Add a region" onClose={onClose} wide>
      <div class="stack">
        <Where draft={draft} set={set} error={error} />
        <Key draft={draft} set={set} error={error} keys={keys} />
        {draft.kind === "slurm" && <Slurm draft={draft} set={set} error={error} />}
        <div class="regions-test" role="status" aria-label="Test">
          {error && !fieldOf(error) && <p class="bad">{errorText(error)}</p>}
          {isTested && <Steps check={tested.check} />}
          {isTested && tested.check.ok && tested.check.host_key_fingerprint !== null && (
            <Fingerprint text={tested.check.host_key_fingerprint} />
          )}
          {!tested && !error && (
            <p class="muted">
              The test stores a new key under SSH keys, signs in, makes the directory and looks for devices. The region
              is stored when you save it.
            </p>
          )}
          {tested && !isTested && <p class="muted">The values have changed since the test: test them again.</p>}
        </div>
      </div>
      <footer>
        {missing !== undefined && <small class="muted regions-missing">{missing}</small>}
        <Button onClick={test} disabled={missing !== undefined}>
          Test
        </Button>
        <Button kind="primary" onClick={save} disabled={!isTested || !tested.check.ok}>
          Save
        </Button>
      </footer>
    </Dialog>
  );
}

/** A pair is stored before its test. Its private half is never shown again. */
async function storeKey({ name, publicKey, privateKey }: Draft): Promise<string> {
  const label = `${name.trim()} ${new Date().toISOString().slice(0, 19)}`.slice(-100);
  const body = { name: label, public_key: publicKey.trim(), private_key: privateKey };
  const { id } = await api<SshKey>("/v1/ssh_keys", { method: "POST", body });
  await reload("/v1/ssh_keys");
  return id;
}

type PartProps = { draft: Draft; set: (part: Partial<Draft>) => void; error: ApiError | undefined };

const FIELDS = ["name", "address", "port", "user", "work_dir", "ssh_key_id", "public_key", "private_key", "slurm"];
const fieldOf = (error: ApiError) => FIELDS.find((name) => error.param?.startsWith(`/${name}`));
const errorAt = (error: ApiError | undefined, name: string) =>
  error !== undefined && fieldOf(error) === name ? error.message : undefined;

const KINDS = [
  ["ssh", "A machine over SSH"],
  ["slurm", "A cluster with Slurm"],
] as const;

const Where = ({ draft, set, error }: PartProps) => (
  <div class="grid half">
    <SelectField label="Kind" value={draft.kind} options={KINDS} onChange={(kind) => set({ kind })} />
    <TextField
      label="Name"
      value={draft.name}
      onInput={(name) => set({ name })}
      placeholder="lab"
      error={errorAt(error, "name")}
    />
    <TextField
      label={draft.kind === "slurm" ? "Address of a login node" : "Address"}
      value={draft.address}
      onInput={(address) => set({ address })}
      placeholder="lab.example"
      hint="A host name or an IP address"
      error={errorAt(error, "address")}
    />
    <TextField
      label="Port"
      type="number"
      value={draft.port}
      onInput={(port) => set({ port })}
      error={errorAt(error, "port")}
    />
    <TextField
      label="User"
      value={draft.user}
      onInput={(user) => set({ user })}
      placeholder="ada"
      error={errorAt(error, "user")}
    />
    <TextField
      label="Directory"
      value={draft.workDir}
      onInput={(workDir) => set({ workDir })}
      hint="For the program, models and runs; a relative one is below the home of the user"
      error={errorAt(error, "work_dir")}
    />
  </div>
);

function Key({ draft, set, error, keys }: PartProps & { keys: readonly SshKey[] }) {
  const chosen = keys.find(({ id }) => id === draft.keyId);
  return (
    <>
      <div class="grid half">
        <SelectField
          label="Key"
          value={draft.keyId}
          options={[["", "A new pair"], ...keys.map(({ id, name, type }) => [id, `${name} (${type})`] as const)]}
          onChange={(keyId) => set({ keyId })}
          error={errorAt(error, "ssh_key_id")}
        />
        <TextField
          label="Price of one device, dollars an hour"
          type="number"
          value={draft.rate}
          onInput={(rate) => set({ rate })}
          hint="Empty: no price"
        />
      </div>
      {draft.keyId === "" && (
        <div class="grid half">
          <TextField
            label="Private key"
            rows={3}
            mono
            value={draft.privateKey}
            onInput={(privateKey) => set({ privateKey })}
            hint="Without a passphrase. It is sealed, and never shown again"
            error={errorAt(error, "private_key")}
          />
          <TextField
            label="Public key"
            rows={3}
            mono
            value={draft.publicKey}
            onInput={(publicKey) => set({ publicKey })}
            hint="One line, as in a .pub file"
            error={errorAt(error, "public_key")}
          />
        </div>
      )}
      {chosen && (
        <p class="regions-key">
          <small class="muted">This line must be in ~/.ssh/authorized_keys of the user:</small>
          <code>{chosen.public_key}</code>
          <Copy text={chosen.public_key} label="Copy the public key" />
        </p>
      )}
    </>
  );
}

const Slurm = ({ draft, set, error }: PartProps) => (
  <div class="grid half">
    <TextField
      label="Partition"
      value={draft.partition}
      onInput={(partition) => set({ partition })}
      hint="Empty: the default one"
      error={errorAt(error, "slurm")}
    />
    <TextField
      label="Account"
      value={draft.account}
      onInput={(account) => set({ account })}
      hint="Empty: the default one"
    />
    <TextField
      label="Jobs at the same time"
      type="number"
      value={draft.maxJobs}
      onInput={(maxJobs) => set({ maxJobs })}
    />
  </div>
);

const Fingerprint = ({ text }: { text: string }) => (
  <p class="regions-key">
    <small class="muted">
      Compare this fingerprint with that of the machine before you save: ssh-keygen -lf
      /etc/ssh/ssh_host_ed25519_key.pub
    </small>
    <code>{text}</code>
  </p>
);
