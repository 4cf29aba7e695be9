#include "dataplane/switch/port/xdp_program.h"

#include <bpf/bpf.h>
#include <fmt/format.h>
#include <linux/if_link.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "dataplane/switch/port/interfaces.h"

namespace tiercast::vswitch {
namespace {

// Eighteen instructions, written out, so that no compiler for BPF is needed. Names are those of
// the kernel's documentation of BPF's instruction set (RFC 9669).
enum Register : std::uint8_t { R0, R1, R2, R3, R4, R5, R6, R7 };

constexpr bpf_insn instruction(unsigned code, Register to, unsigned from, int offset,
                               std::int32_t immediate) {
  bpf_insn one{};
  one.code = static_cast<std::uint8_t>(code);
  one.dst_reg = to & 0xf;
  one.src_reg = from & 0xf;
  one.off = static_cast<std::int16_t>(offset);
  one.imm = immediate;
  return one;
}
constexpr bpf_insn move(Register to, Register from) {
  return instruction(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0);
}
constexpr bpf_insn move(Register to, std::int32_t value) {
  return instruction(BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, value);
}
constexpr bpf_insn add(Register to, std::int32_t value) {
  return instruction(BPF_ALU64 | BPF_ADD | BPF_K, to, 0, 0, value);
}
constexpr bpf_insn load_word(Register to, Register from, std::size_t offset) {
  return instruction(BPF_LDX | BPF_MEM | BPF_W, to, from, static_cast<int>(offset), 0);
}
constexpr bpf_insn store_double_word(Register at, Register value) {
  return instruction(BPF_STX | BPF_MEM | BPF_DW, at, value, 0, 0);
}
// Jumps over so many instructions.
constexpr bpf_insn jump_if_not_zero(Register value, int over) {
  return instruction(BPF_JMP | BPF_JNE | BPF_K, value, 0, over, 0);
}
constexpr bpf_insn jump_if_greater(Register a, Register b, int over) {
  return instruction(BPF_JMP | BPF_JGT | BPF_X, a, b, over, 0);
}
constexpr bpf_insn call(bpf_func_id helper) {
  return instruction(BPF_JMP | BPF_CALL, R0, 0, 0, helper);
}

std::string reason() { return strerror(errno); }

UniqueFd load(const std::string& interface, int sockets) {
  constexpr std::int32_t kStamp = kXdpStampBytes;
  const std::array<bpf_insn, 18> program{
      // Where the driver has room, the time goes in front of the frame.
      move(R6, R1),
      move(R2, -kStamp),
      call(BPF_FUNC_xdp_adjust_meta),
      jump_if_not_zero(R0, 8),
      call(BPF_FUNC_ktime_get_ns),
      move(R7, R0),
      load_word(R2, R6, offsetof(xdp_md, data_meta)),
      load_word(R3, R6, offsetof(xdp_md, data)),
      move(R4, R2),
      add(R4, kStamp),
      jump_if_greater(R4, R3, 1),
      store_double_word(R2, R7),
      // The frame goes to the queue's socket, or to the kernel's stack if it has none.
      instruction(BPF_LD | BPF_IMM | BPF_DW, R1, BPF_PSEUDO_MAP_FD, 0, sockets),
      instruction(0, R0, 0, 0, 0),  // the upper half of the address
      load_word(R2, R6, offsetof(xdp_md, rx_queue_index)),
      move(R3, XDP_PASS),
      call(BPF_FUNC_redirect_map),
      instruction(BPF_JMP | BPF_EXIT, R0, 0, 0, 0),
  };
  UniqueFd loaded(::bpf_prog_load(BPF_PROG_TYPE_XDP, "tiercast_port", "Dual MIT/GPL",
                                  program.data(), program.size(), nullptr));
  if (loaded.get() < 0)
    throw InterfaceError(
        fmt::format("interface {}: XDP program: {}{}", interface, reason(),
                    errno == EPERM ? " (root, or CAP_BPF and CAP_NET_ADMIN, is needed)" : ""));
  return loaded;
}

}  // namespace

XdpProgram::XdpProgram(const std::string& interface, int index, int socket)
    : sockets_(::bpf_map_create(BPF_MAP_TYPE_XSKMAP, "tiercast_port", sizeof(int), sizeof(int), 1,
                                nullptr)) {
  if (sockets_.get() < 0)
    throw InterfaceError(fmt::format("interface {}: map of XDP sockets: {}", interface, reason()));
  const int queue = 0;
  if (::bpf_map_update_elem(sockets_.get(), &queue, &socket, BPF_ANY) != 0)
    throw InterfaceError(fmt::format("interface {}: map of XDP sockets: {}", interface, reason()));
  program_ = load(interface, sockets_.get());
  bpf_link_create_opts options{};
  options.sz = sizeof options;
  for (const unsigned mode : {XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE}) {
    if (mode == XDP_FLAGS_DRV_MODE && driver(interface) == "veth") continue;
    options.flags = mode;
    link_ = UniqueFd(::bpf_link_create(program_.get(), index, BPF_XDP, &options));
    if (link_.get() >= 0) return;
  }
  throw InterfaceError(fmt::format(
      "interface {}: attaching the XDP program: {}{}", interface, reason(),
      errno == EBUSY || errno == EEXIST ? "; another one is attached (ip link show)" : ""));
}

}  // namespace tiercast::vswitch
