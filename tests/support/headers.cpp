// Compiles the headers that all tests share (CMakeLists.txt).
