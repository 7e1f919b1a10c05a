/** One small picture for each generator. `test/detection/watermark.test.ts` has more of them, and JPEG. */
import { expect, test } from "bun:test";
import { EXCHANGED, embed, SCHEMES, softPicture } from "../../../../test/detection/watermark_kit.ts";
import { findWatermark } from "./watermark.ts";

const picture = softPicture(512, 384);

test.each([...Object.entries(SCHEMES), ["Stable Diffusion XL", EXCHANGED] as const])(
  "the watermark of %s is found in a picture that has it, and in no other",
  (generator, scheme) => {
    expect(findWatermark(embed(picture, scheme))).toEqual({ generator, agreement: 1 });
    const bits = scheme.bits.map((bit, i) => (i % 3 === 0 ? 1 - bit : bit));
    expect(findWatermark(embed(picture, { ...scheme, bits }))).toBeNull();
  },
);

test("a picture without a watermark has none", () => expect(findWatermark(picture)).toBeNull());
