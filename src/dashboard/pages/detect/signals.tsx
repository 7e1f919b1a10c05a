import { signatureWords } from "../../../lib/detection/signature_words.ts";
import type { Detection } from "../../../resources/detection/schema.ts";
import { NONE } from "../../data/format.ts";
import { Card, Facts } from "../../kit/card.tsx";

/** Metadata of the file. They never change the score: anyone can write them. */
export function Signals({ detection: { signals, imageHash } }: { detection: Detection }) {
  const { c2pa, metadata } = signals;
  return (
    <Card title="Metadata" note="never changes the score">
      <Facts
        rows={[
          ["Content credentials", c2pa?.present ? "present (C2PA)" : "none"],
          ...(c2pa?.present
            ? ([
                ["Content hash", hashWords(c2pa.hash_valid)],
                ["Signature", c2pa.signature ? signatureWords(c2pa.signature) : NONE],
                ["Made with", c2pa.claim_generator ?? NONE],
                ["Source type", c2pa.digital_source_type?.split("/").at(-1) ?? NONE],
              ] as const)
            : []),
          ["Generator", metadata.generator ?? NONE],
          ["Software", metadata.software ?? NONE],
          ["Camera", metadata.camera ?? NONE],
          ["SHA-256", <code key="hash">{`${imageHash.slice(0, 16)}…`}</code>],
        ]}
      />
    </Card>
  );
}

const hashWords = (isValid: boolean | null): string => {
  if (isValid === null) return "nothing to compare";
  return isValid ? "matches the file" : "does not match the file";
};
