#include "dataplane/engine/native/generate.h"

#include "dataplane/engine/native/native_abi_text.h"
#include "dataplane/engine/native/writer.h"

namespace tiercast::engine {

namespace {

// Compilers need time that grows faster than a function's length.
constexpr std::size_t kMostInstructions = 20'000;

void write_pipeline(const Image& image, std::string_view space, std::string& out) {
  const FlatCode& flat = image.flat;
  out += "namespace " + std::string(space) + " {\nnamespace {\n\n";
  write_frame_functions(image, out);
  write_part(image, "parse", flat.parser, out);
  write_part(image, "verify", flat.verify_checksums, out);
  write_part(image, "ingress", flat.ingress, out);
  write_part(image, "egress", flat.egress, out);
  write_part(image, "update", flat.update_checksums, out);
  out +=
      "constexpr NativePipeline kPipeline = {clear, copy, parse, verify, ingress, egress, update,\n"
      "    header_bytes, is_unchanged, compare, rewrite, settle};\n\n}  // namespace\n}\n\n";
}

bool fits(const Image& image) {
  return image.flat.present() && image.flat.code.size() <= kMostInstructions;
}

}  // namespace

std::string generate_native(const Image& image, const std::string& symbol) {
  if (!fits(image) || (image.egress != nullptr && !fits(*image.egress))) return {};
  std::string out = kNativeAbiText;
  out +=
      "\nnamespace tiercast::engine {\n\n#ifdef __x86_64__\nnamespace {\n"
      "const bool kWide = (__builtin_cpu_init(), __builtin_cpu_supports(\"avx2\") != 0);\n"
      "}\n#endif\n\n";
  write_pipeline(image, "first", out);
  if (image.egress != nullptr) write_pipeline(*image.egress, "second", out);
  out += "}  // namespace tiercast::engine\n\n";
  out += "extern \"C\" {\nextern const tiercast::engine::NativeProgram " + symbol +
         ";\nconst tiercast::engine::NativeProgram " + symbol +
         " = {tiercast::engine::first::kPipeline,\n    " +
         (image.egress == nullptr ? "nullptr" : "&tiercast::engine::second::kPipeline") + "};\n}\n";
  return out;
}

}  // namespace tiercast::engine
