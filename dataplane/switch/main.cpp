// tiercast-switch: see docs/switch.md.
#include "dataplane/switch/program.h"

int main(int argc, char** argv) { return tiercast::vswitch::switch_main(argc, argv); }
