# What is made from schemes.txt: the numbers on the wire, and the registry of schemes.
set(list ${CMAKE_CURRENT_LIST_DIR}/schemes.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
file(STRINGS ${list} lines REGEX "^[^#]")
set(numbers "")
set(names "")
foreach(line ${lines})
  if(NOT line MATCHES "^([1-9][0-9]*) ([a-z][a-z0-9_]*)$")
    message(FATAL_ERROR "${list}: '${line}'; valid: a number, a space, the name of a folder")
  endif()
  set(number ${CMAKE_MATCH_1})
  set(name ${CMAKE_MATCH_2})
  if(number GREATER 254 OR number IN_LIST numbers OR name IN_LIST names)
    message(FATAL_ERROR "${list}: '${line}'; valid: numbers of 1 to 254, each number and each name once")
  endif()
  list(APPEND numbers ${number})
  list(APPEND names ${name})
endforeach()
set(TIERCAST_SCHEME_NUMBERS ${numbers} CACHE INTERNAL "")
set(TIERCAST_SCHEME_NAMES ${names} CACHE INTERNAL "")
list(TRANSFORM names PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
set(TIERCAST_SCHEME_FOLDERS ${names} CACHE INTERNAL "")

# Writes TIERCAST_SCHEME(kSim, 1) and so on to a file, which wire.h includes.
function(tiercast_write_scheme_numbers file)
  set(text "")
  foreach(number name IN ZIP_LISTS TIERCAST_SCHEME_NUMBERS TIERCAST_SCHEME_NAMES)
    string(SUBSTRING ${name} 0 1 first)
    string(SUBSTRING ${name} 1 -1 rest)
    string(TOUPPER ${first} first)
    string(APPEND text "TIERCAST_SCHEME(k${first}${rest}, ${number})\n")
  endforeach()
  file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)
endfunction()

# Ends with an error; the build keeps the folders that it had before.
macro(tiercast_refuse_schemes reason)
  set_property(CACHE TIERCAST_SCHEMES PROPERTY VALUE "${TIERCAST_ACCEPTED_SCHEMES}")
  message(FATAL_ERROR "${reason}")
endmacro()

# Writes schemes() to a C++ file: our schemes, and those of further folders. Such a folder is called
# as its scheme; <name>.h in it declares `tiercast::<name>::scheme()`.
function(tiercast_write_registry file)
  set(includes "")
  set(entries "")
  foreach(folder ${TIERCAST_SCHEME_FOLDERS} ${ARGN})
    cmake_path(GET folder FILENAME name)
    if(NOT EXISTS ${folder}/${name}.h)
      tiercast_refuse_schemes(
        "scheme ${name}: ${folder}/${name}.h is missing; valid: a folder that has it (`make programs SCHEMES=<folder>`)")
    endif()
    if(entries MATCHES " ${name}::")
      tiercast_refuse_schemes("scheme ${name}: ${folder} is the second of that name; valid: another name")
    endif()
    string(APPEND includes "#include \"${folder}/${name}.h\"\n")
    string(APPEND entries "      checked(\"${name}\", ${name}::scheme()),\n")
  endforeach()
  file(CONFIGURE OUTPUT ${file} @ONLY CONTENT "#include \"protocols/core/registry.h\"

${includes}
namespace tiercast {

std::span<const Scheme> schemes() {
  static const Scheme kSchemes[] = {
${entries}  };
  return kSchemes;
}

}  // namespace tiercast
")
endfunction()
