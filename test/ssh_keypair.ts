/** A new pair in the form that `POST /v1/ssh_keys` takes. */
export async function sshKeypair() {
  const { privateKey, publicKey } = (await crypto.subtle.generateKey({ name: "Ed25519" }, true, [
    "sign",
    "verify",
  ])) as CryptoKeyPair;
  const raw = Buffer.from(await crypto.subtle.exportKey("raw", publicKey));
  const text = (bytes: Buffer) => Buffer.concat([Buffer.from([0, 0, 0, bytes.length]), bytes]);
  const blob = Buffer.concat([text(Buffer.from("ssh-ed25519")), text(raw)]).toString("base64");
  const pkcs8 = Buffer.from(await crypto.subtle.exportKey("pkcs8", privateKey)).toString("base64");
  return {
    public_key: `ssh-ed25519 ${blob} journey`,
    private_key: `-----BEGIN PRIVATE KEY-----\n${pkcs8}\n-----END PRIVATE KEY-----\n`,
  };
}
